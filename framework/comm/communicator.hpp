// Room comm: all that crosses ranks, and the only room that includes mpi.h (its headers do not). Comm moves numbers and
// bytes; what the bytes mean, it does not know. Every collective of training goes through here, and is counted. This
// header: the MPI session of the process and the group of ranks that a collective runs in.
//
// Today a process is one rank: a world of several is refused by Communicator::world(). On one rank a collective that
// returns its input in place is the identity, and one with an output is a real copy in the execution space, without a
// fence.
#pragma once

#include "tensor/tensor.hpp"

#include <array>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>

namespace kvant {
struct Exec;
}

namespace kvant::comm {

/// Initialises MPI, and finalises it again if it was this object that initialised it. Made before Kokkos, dies after
/// it. A program started without mpirun is a world of one rank. Needs MPI_THREAD_FUNNELED: kernels run threads, and MPI
/// is called from the main thread alone; an MPI that offers less is refused. An MPI error throws kvant::Error with
/// MPI's text.
class MpiSession {
 public:
  MpiSession();
  ~MpiSession();
  MpiSession(const MpiSession&) = delete;
  MpiSession& operator=(const MpiSession&) = delete;

  /// "Open MPI v5.0.7, …": first line of what the library says about itself.
  static std::string library();

 private:
  bool ours_ = false;
};

enum class Collective : uint8_t { all_reduce, broadcast, all_gather, reduce_scatter, all_to_all, barrier };
inline constexpr int collective_count = 6;
std::string_view name_of(Collective collective);

/// What a group of ranks has done: calls, bytes that this rank handed in, and bytes that it sent to other ranks.
struct Traffic {
  struct Count {
    int64_t calls = 0;
    int64_t payload_bytes = 0;
    int64_t sent_bytes = 0;  ///< 0 on one rank
  };
  std::array<Count, collective_count> count{};
  const Count& operator[](Collective c) const { return count[static_cast<std::size_t>(c)]; }
  Count total() const;
};

/// A group of ranks. The calls on spans are for numbers of the host (counts, norms, losses) and complete when they
/// return; the calls on tensors are queued on `exec` and order themselves after what was queued before. Tensors are
/// contiguous.
class Communicator {
 public:
  /// All ranks of the job. Throws UsageError when they are more than one. MPI must be initialised.
  static Communicator world();

  int rank() const { return rank_; }
  int size() const { return size_; }

  void barrier();
  void all_reduce_sum(std::span<double> values);
  void all_reduce_sum(std::span<int64_t> values);
  void all_reduce_max(std::span<double> values);
  void broadcast(std::span<double> values, int root);
  void broadcast(std::span<int64_t> values, int root);

  void all_reduce_sum(const Exec& exec, const TensorView& values);
  void all_reduce_max(const Exec& exec, const TensorView& values);
  /// full = the shards of all ranks, by rank: size() times as many elements.
  void all_gather(const Exec& exec, const TensorView& shard, const TensorView& full);
  /// shard = this rank's part of the sum over ranks of full.
  void reduce_scatter_sum(const Exec& exec, const TensorView& full, const TensorView& shard);
  /// Rows (axis 0) change hands: the first send_rows[0] rows of `rows` go to rank 0, and so on; what arrives is ordered
  /// by sender. received_rows has size() entries and says how many rows come from each.
  void all_to_all(const Exec& exec, const TensorView& rows, std::span<const int64_t> send_rows,
                  const TensorView& received, std::span<const int64_t> received_rows);
  /// received_rows[r] = how many rows rank r will send to this one.
  void exchange_counts(std::span<const int64_t> send_rows, std::span<int64_t> received_rows);

  const Traffic& traffic() const { return traffic_; }

 private:
  Communicator(int rank, int size) : rank_(rank), size_(size) {}
  void count(Collective collective, std::size_t bytes);

  int rank_ = 0, size_ = 1;
  Traffic traffic_;
};

}  // namespace kvant::comm
