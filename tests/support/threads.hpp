// An execution space with fewer threads than the process has, for tests that compare thread counts.
#pragma once

#include "base/kokkos.hpp"

#include <type_traits>

namespace kvant::test {

#ifdef KOKKOS_ENABLE_OPENMP
inline constexpr bool can_choose_threads = std::is_same_v<ExecSpace, Kokkos::OpenMP>;
#else
inline constexpr bool can_choose_threads = false;
#endif

/// Only where can_choose_threads. A template, so that other backends need not compile the constructor.
template <class Space = ExecSpace>
Exec exec_with_threads(int count) {
  return Exec{Space(count)};
}

}  // namespace kvant::test
