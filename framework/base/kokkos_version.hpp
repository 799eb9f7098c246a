// Version and configuration of Kokkos as macros, without its templates: a plugin that has no kernel need not compile them.
#pragma once

#include <Kokkos_Macros.hpp>

static_assert(KOKKOS_VERSION >= 40600, "Kvant needs Kokkos 4.6 or newer");
