// The file that includes Kokkos (its version alone: base/kokkos_version.hpp): execution space, memory space and view aliases, version shims.
#pragma once

#include "base/kokkos_version.hpp"

#include <Kokkos_Core.hpp>

#include <cstddef>

namespace kvant {

/// The execution space of the whole program (OpenMP, CUDA or HIP: whatever Kokkos was built with as its default).
using ExecSpace = Kokkos::DefaultExecutionSpace;
using MemSpace = ExecSpace::memory_space;

/// One stream of work. A class of our own so that rooms and plugins can name it without including Kokkos.
struct Exec {
  ExecSpace space{};
};

inline constexpr bool exec_is_host =
    Kokkos::SpaceAccessibility<Kokkos::DefaultHostExecutionSpace, MemSpace>::accessible;

using Range = Kokkos::RangePolicy<ExecSpace, Kokkos::IndexType<long>>;
using Team = Kokkos::TeamPolicy<ExecSpace, Kokkos::IndexType<long>>;
using TeamMember = Team::member_type;

}  // namespace kvant
