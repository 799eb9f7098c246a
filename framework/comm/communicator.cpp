#include "comm/communicator.hpp"

#include "base/error.hpp"
#include "base/kokkos.hpp"
#include "comm/detail/mpi_check.hpp"

#include <algorithm>

namespace kvant::comm {
namespace {

/// Bytes from one tensor to another of the same number of them, in the execution space, without a fence.
void copy(const Exec& exec, const TensorView& from, const TensorView& to) {
  using Bytes = Kokkos::View<char*, MemSpace, Kokkos::MemoryUnmanaged>;
  if (from.bytes() == 0 || from.data == to.data) return;
  const Bytes source(static_cast<char*>(from.data), from.bytes()), target(static_cast<char*>(to.data), to.bytes());
  Kokkos::deep_copy(exec.space, target, source);
}

void check_pair(const char* call, const TensorView& in, const TensorView& out, int64_t in_parts, int64_t out_parts) {
  require(in.contiguous() && out.contiguous(), "{}: tensors must be contiguous.", call);
  require(in.dtype == out.dtype && in.space == out.space, "{}: the input is {} and the output {}, in {} memory.", call,
          name_of(in.dtype), name_of(out.dtype), in.space == out.space ? "one" : "different");
  require(in.numel() * in_parts == out.numel() * out_parts,
          "{}: an input of {} and an output of {} do not fit a group of {} ranks.", call, to_string(in.shape),
          to_string(out.shape), std::max(in_parts, out_parts));
}

void check_in_place(const char* call, const TensorView& values) {
  require(values.contiguous(), "{}: the tensor must be contiguous.", call);
  require(values.dtype == DType::f32 || values.dtype == DType::i32,
          "{}: a tensor of {} cannot be reduced; float32 and int32 can.", call, name_of(values.dtype));
}

void check_root(int root, int size) {
  require(root >= 0 && root < size, "broadcast: the root is rank {}, but the group has ranks 0 to {}.", root, size - 1);
}

}  // namespace

std::string_view name_of(Collective collective) {
  switch (collective) {
    case Collective::all_reduce:
      return "all_reduce";
    case Collective::broadcast:
      return "broadcast";
    case Collective::all_gather:
      return "all_gather";
    case Collective::reduce_scatter:
      return "reduce_scatter";
    case Collective::all_to_all:
      return "all_to_all";
    case Collective::barrier:
      return "barrier";
  }
  return "?";
}

Traffic::Count Traffic::total() const {
  Count sum;
  for (const Count& c : count) {
    sum.calls += c.calls;
    sum.payload_bytes += c.payload_bytes;
    sum.sent_bytes += c.sent_bytes;
  }
  return sum;
}

Communicator Communicator::world() {
  int initialized = 0, rank = 0, size = 0;
  detail::check_mpi(MPI_Initialized(&initialized), "MPI_Initialized");
  require(initialized != 0, "MPI must be initialised (comm::MpiSession) before ranks are asked for.");
  detail::check_mpi(MPI_Comm_rank(MPI_COMM_WORLD, &rank), "MPI_Comm_rank");
  detail::check_mpi(MPI_Comm_size(MPI_COMM_WORLD, &size), "MPI_Comm_size");
  if (size != 1)
    refuse(
        "The MPI launcher started {} ranks, but this version of Kvant runs on one. Start it without mpirun or srun, or "
        "with "
        "one rank; it uses all cores of the machine through threads (OMP_NUM_THREADS).",
        size);
  return Communicator(rank, size);
}

void Communicator::count(Collective collective, std::size_t bytes) {
  Traffic::Count& c = traffic_.count[static_cast<std::size_t>(collective)];
  c.calls += 1;
  c.payload_bytes += static_cast<int64_t>(bytes);
}

void Communicator::barrier() { count(Collective::barrier, 0); }
void Communicator::all_reduce_sum(std::span<double> values) { count(Collective::all_reduce, values.size_bytes()); }
void Communicator::all_reduce_sum(std::span<int64_t> values) { count(Collective::all_reduce, values.size_bytes()); }
void Communicator::all_reduce_max(std::span<double> values) { count(Collective::all_reduce, values.size_bytes()); }

void Communicator::broadcast(std::span<double> values, int root) {
  check_root(root, size_);
  count(Collective::broadcast, values.size_bytes());
}

void Communicator::broadcast(std::span<int64_t> values, int root) {
  check_root(root, size_);
  count(Collective::broadcast, values.size_bytes());
}

void Communicator::all_reduce_sum(const Exec&, const TensorView& values) {
  check_in_place("all_reduce_sum", values);
  count(Collective::all_reduce, values.bytes());
}

void Communicator::all_reduce_max(const Exec&, const TensorView& values) {
  check_in_place("all_reduce_max", values);
  count(Collective::all_reduce, values.bytes());
}

void Communicator::all_gather(const Exec& exec, const TensorView& shard, const TensorView& full) {
  check_pair("all_gather", shard, full, size_, 1);
  count(Collective::all_gather, shard.bytes());
  copy(exec, shard, full);
}

void Communicator::reduce_scatter_sum(const Exec& exec, const TensorView& full, const TensorView& shard) {
  check_in_place("reduce_scatter_sum", full);
  check_pair("reduce_scatter_sum", full, shard, 1, size_);
  count(Collective::reduce_scatter, full.bytes());
  copy(exec, full, shard);
}

void Communicator::all_to_all(const Exec& exec, const TensorView& rows, std::span<const int64_t> send_rows,
                              const TensorView& received, std::span<const int64_t> received_rows) {
  const auto ranks = static_cast<std::size_t>(size_);
  require(send_rows.size() == ranks && received_rows.size() == ranks,
          "all_to_all: row counts for {} and from {} ranks were given, but the group has {}.", send_rows.size(),
          received_rows.size(), size_);
  require(rows.shape.rank > 0 && received.shape.rank > 0 && rows.shape[0] == send_rows[0] &&
              received.shape[0] == received_rows[0],
          "all_to_all: the tensors {} and {} do not hold the {} rows to send and the {} to receive.",
          to_string(rows.shape), to_string(received.shape), send_rows[0], received_rows[0]);
  check_pair("all_to_all", rows, received, 1, 1);
  count(Collective::all_to_all, rows.bytes());
  copy(exec, rows, received);
}

void Communicator::exchange_counts(std::span<const int64_t> send_rows, std::span<int64_t> received_rows) {
  require(send_rows.size() == static_cast<std::size_t>(size_) && received_rows.size() == send_rows.size(),
          "exchange_counts: {} and {} counts were given, but the group has {} ranks.", send_rows.size(),
          received_rows.size(), size_);
  count(Collective::all_to_all, send_rows.size_bytes());
  std::ranges::copy(send_rows, received_rows.begin());
}

}  // namespace kvant::comm
