// A pool of tiles that the host's threads share: every worker draws the next number until none is left. Which worker does
// a tile changes no result (a tile is a pure function of its operands), so dynamic sharing costs nothing in determinism
// and does not leave a thread idle when a neighbour is slow.
#pragma once

#include "base/kokkos.hpp"
#include "tensor/arena.hpp"

#include <algorithm>
#include <type_traits>

namespace kvant::detail {

using HostExec = Kokkos::DefaultHostExecutionSpace;

template <class Space>
HostExec host_space(const Space& space) {
  if constexpr (std::is_same_v<Space, HostExec>)
    return space;
  else
    return HostExec{};
}

/// Threads that may work on a pool.
inline int pool_workers(const Exec& exec) { return std::max(1, host_space(exec.space).concurrency()); }

/// Work(tile, worker).
template <class Work>
struct PoolBody {
  Work work;
  int tiles;
  int* next;

  void operator()(long worker) const {
    for (int tile = Kokkos::atomic_fetch_add(next, 1); tile < tiles; tile = Kokkos::atomic_fetch_add(next, 1))
      work(tile, static_cast<int>(worker));
  }
};

/// Runs work(tile, worker) for tiles 0 .. tiles - 1; worker < pool_workers(exec). Host backends only: the ticket counter is
/// set by the host, which the host backends order before the kernel.
template <class Work>
void run_pool(const Exec& exec, const char* label, int64_t tiles, const Work& work, Arena& workspace) {
  if (tiles == 0) return;
  const ArenaScope scope(workspace);
  auto* next = static_cast<int*>(workspace.allocate_bytes(sizeof(int)));
  *next = 0;
  const long workers = std::min<long>(pool_workers(exec), tiles);
  using Policy = Kokkos::RangePolicy<HostExec, Kokkos::IndexType<long>, Kokkos::Schedule<Kokkos::Static>>;
  Kokkos::parallel_for(label, Policy(host_space(exec.space), 0, workers, Kokkos::ChunkSize(1)),
                       PoolBody<Work>{work, static_cast<int>(tiles), next});
}

}  // namespace kvant::detail
