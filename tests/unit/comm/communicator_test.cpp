#include "comm/communicator.hpp"

#include "base/error.hpp"
#include "base/kokkos.hpp"
#include "comm/detail/mpi_check.hpp"

#include <array>
#include <catch2/catch_test_macros.hpp>
#include <catch2/matchers/catch_matchers_string.hpp>
#include <vector>

using namespace kvant;
using Catch::Matchers::ContainsSubstring;
using comm::Collective;
using comm::Communicator;

namespace {

using Floats = Kokkos::View<float*, MemSpace>;

constexpr MemorySpace space = exec_is_host ? MemorySpace::host : MemorySpace::device;

TensorView view_of(const Floats& v, const Shape& shape) { return make_view(v.data(), DType::f32, shape, space); }

Floats numbered(const char* label, int n, float first) {
  Floats v(label, static_cast<std::size_t>(n));
  const auto host = Kokkos::create_mirror_view(v);
  for (int i = 0; i < n; ++i) host(i) = first + static_cast<float>(i);
  Kokkos::deep_copy(v, host);
  return v;
}

bool equal(const Floats& a, const Floats& b) {
  const auto x = Kokkos::create_mirror_view_and_copy(Kokkos::HostSpace(), a),
             y = Kokkos::create_mirror_view_and_copy(Kokkos::HostSpace(), b);
  if (x.size() != y.size()) return false;
  for (std::size_t i = 0; i < x.size(); ++i)
    if (x(i) != y(i)) return false;
  return true;
}

}  // namespace

TEST_CASE("MPI that runs already is used and left running") {
  {
    const comm::MpiSession session;
    CHECK(Communicator::world().size() == 1);
  }
  int finalized = 1;
  MPI_Finalized(&finalized);
  CHECK(finalized == 0);
  CHECK_FALSE(comm::MpiSession::library().empty());
}

TEST_CASE("an MPI error and a thread level that is too low become sentences") {
  const comm::MpiSession session;
  CHECK_THROWS_WITH(comm::detail::check_mpi(MPI_Comm_rank(MPI_COMM_NULL, nullptr), "MPI_Comm_rank"),
                    ContainsSubstring("MPI_Comm_rank failed: MPI_ERR_COMM"));
  CHECK_THROWS_WITH(comm::detail::check_thread_level(MPI_THREAD_SINGLE),
                    ContainsSubstring("MPI_THREAD_FUNNELED (1) is needed"));
  CHECK_NOTHROW(comm::detail::check_thread_level(MPI_THREAD_MULTIPLE));
}

TEST_CASE("numbers of the host go through collectives unchanged on one rank, and are counted") {
  Communicator world = Communicator::world();
  CHECK(world.rank() == 0);
  std::array<double, 3> values{1.5, -2, 1e300};
  std::array<int64_t, 2> counts{7, -9};
  world.all_reduce_sum(values);
  world.all_reduce_max(values);
  world.all_reduce_sum(counts);
  world.broadcast(values, 0);
  world.broadcast(counts, 0);
  world.barrier();
  CHECK(values == std::array<double, 3>{1.5, -2, 1e300});
  CHECK(counts == std::array<int64_t, 2>{7, -9});
  const comm::Traffic& traffic = world.traffic();
  CHECK(traffic[Collective::all_reduce].calls == 3);
  CHECK(traffic[Collective::all_reduce].payload_bytes == 24 + 24 + 16);
  CHECK(traffic[Collective::broadcast].payload_bytes == 24 + 16);
  CHECK(traffic[Collective::barrier].calls == 1);
  CHECK(traffic.total().calls == 6);
  CHECK(traffic.total().payload_bytes == 104);
  CHECK(traffic.total().sent_bytes == 0);
  CHECK_THROWS_WITH(world.broadcast(values, 1),
                    ContainsSubstring("the root is rank 1, but the group has ranks 0 to 0"));
  CHECK_THROWS(world.broadcast(counts, -1));
}

TEST_CASE("tensors are copied where a collective has an output") {
  const Exec exec;
  Communicator world = Communicator::world();
  const Floats in = numbered("in", 12, 3), full("full", 12), shard("shard", 12), rows("rows", 12);
  world.all_gather(exec, view_of(in, {3, 4}), view_of(full, {3, 4}));
  world.reduce_scatter_sum(exec, view_of(full, {12}), view_of(shard, {12}));
  const std::array<int64_t, 1> three{3};
  world.all_to_all(exec, view_of(shard, {3, 4}), three, view_of(rows, {3, 4}), three);
  world.all_reduce_sum(exec, view_of(rows, {12}));
  world.all_reduce_max(exec, view_of(rows, {12}));
  exec.space.fence("kvant::test::collectives");
  CHECK(equal(in, full));
  CHECK(equal(in, rows));
  CHECK(world.traffic()[Collective::all_gather].payload_bytes == 48);
  CHECK(world.traffic()[Collective::reduce_scatter].payload_bytes == 48);
  CHECK(world.traffic()[Collective::all_to_all].payload_bytes == 48);
  CHECK(world.traffic()[Collective::all_reduce].payload_bytes == 96);

  std::array<int64_t, 1> received{};
  world.exchange_counts(three, received);
  CHECK(received == three);
}

TEST_CASE("an exchange without rows is legal") {
  const Exec exec;
  Communicator world = Communicator::world();
  const std::array<int64_t, 1> none{0};
  const TensorView empty = make_view(nullptr, DType::f32, {0, 4}, space);
  CHECK_NOTHROW(world.all_to_all(exec, empty, none, empty, none));
}

TEST_CASE("tensors that do not fit are refused with their shapes") {
  const Exec exec;
  Communicator world = Communicator::world();
  const Floats a("a", 12), b("b", 12);
  const TensorView whole = view_of(a, {3, 4}), small = view_of(b, {2, 4});
  CHECK_THROWS_WITH(world.all_gather(exec, whole, small),
                    ContainsSubstring("an input of [3, 4] and an output of [2, 4]"));
  CHECK_THROWS_WITH(world.all_gather(exec, whole.slice_cols(0, 2), small), ContainsSubstring("must be contiguous"));
  CHECK_THROWS_WITH(world.all_gather(exec, whole, make_view(b.data(), DType::i32, {3, 4}, space)),
                    ContainsSubstring("float32 and the output int32"));
  CHECK_THROWS_WITH(world.reduce_scatter_sum(exec, whole, small), ContainsSubstring("reduce_scatter_sum"));
  CHECK_THROWS_WITH(world.all_reduce_sum(exec, make_view(b.data(), DType::i8, {12}, space)),
                    ContainsSubstring("a tensor of int8 cannot be reduced"));
  CHECK_THROWS_WITH(world.all_reduce_max(exec, whole.slice_cols(0, 2)), ContainsSubstring("contiguous"));
  const std::array<int64_t, 1> three{3}, two{2};
  const std::array<int64_t, 2> both{1, 2};
  CHECK_THROWS_WITH(world.all_to_all(exec, whole, two, whole, three),
                    ContainsSubstring("do not hold the 2 rows to send"));
  CHECK_THROWS_WITH(world.all_to_all(exec, whole, both, whole, three),
                    ContainsSubstring("row counts for 2 and from 1 ranks"));
  std::array<int64_t, 1> received{};
  CHECK_THROWS_WITH(world.exchange_counts(both, received), ContainsSubstring("2 and 1 counts were given"));
}
