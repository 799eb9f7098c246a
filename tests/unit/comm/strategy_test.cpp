#include "comm/strategy.hpp"

#include "base/error.hpp"
#include "base/kokkos.hpp"
#include "plugin/loader.hpp"

#include <array>
#include <catch2/catch_test_macros.hpp>
#include <catch2/matchers/catch_matchers_string.hpp>

using namespace kvant;
using Catch::Matchers::ContainsSubstring;

namespace {

using Bytes = Kokkos::View<uint8_t*, MemSpace>;

TensorView view_of(const Bytes& v, const Shape& shape) {
  return make_view(v.data(), DType::u8, shape, exec_is_host ? MemorySpace::host : MemorySpace::device);
}

int sum(const Bytes& v) {
  const auto host = Kokkos::create_mirror_view_and_copy(Kokkos::HostSpace(), v);
  int total = 0;
  for (std::size_t i = 0; i < host.size(); ++i) total += host(i);
  return total;
}

}  // namespace

TEST_CASE("a grid has one rank today, and says so") {
  const comm::Communicator world = comm::Communicator::world();
  comm::ProcessGrid grid(world, {});
  CHECK(grid.fsdp().size() == 1);
  CHECK(grid.data().rank() == 0);
  CHECK(grid.sizes().expert == 1);
  CHECK_THROWS_WITH(comm::ProcessGrid(world, {2, 1, 1}),
                    ContainsSubstring("2 (data) × 1 (fsdp) × 1 (expert) = 2 ranks was asked for, but the job has 1"));
  CHECK_THROWS_WITH(comm::ProcessGrid(world, {1, 4, 8}), ContainsSubstring("= 32 ranks"));
  CHECK_THROWS_WITH(comm::ProcessGrid(world, {1, 0, 1}), ContainsSubstring("every axis has at least one rank"));
  CHECK_THROWS_WITH(comm::ProcessGrid(world, {-1, 1, -1}), ContainsSubstring("every axis has at least one rank"));
  CHECK_THROWS_AS(comm::ProcessGrid(world, {65536, 65536, 1}), UsageError);  // the product does not fit an int
}

TEST_CASE("the strategy of one rank gathers, scatters and exchanges through the collectives") {
  comm::register_builtin_strategies();
  comm::register_builtin_strategies();
  comm::CommStrategy& strategy = plugin::use<comm::CommStrategy>("one_rank");
  comm::ProcessGrid grid(comm::Communicator::world(), {});
  const Exec exec;
  const Bytes part("part", 20), full("full", 20), there("there", 20), back("back", 20);
  Kokkos::deep_copy(part, uint8_t{3});

  const auto gather = strategy.make_weight_gather(grid);
  gather->gather(exec, view_of(part, {20}), view_of(full, {20}));
  const auto exchange = strategy.make_token_exchange(grid);
  const std::array<int64_t, 1> send{5};
  const comm::TokenCounts counts = exchange->plan(send);
  CHECK(counts.rows_received() == 5);
  exchange->dispatch(exec, counts, view_of(full, {5, 4}), view_of(there, {5, 4}));
  exchange->combine(exec, counts, view_of(there, {5, 4}), view_of(back, {5, 4}));
  exec.space.fence("kvant::test::strategy");
  CHECK(sum(full) == 60);
  CHECK(sum(back) == 60);
  CHECK(grid.fsdp().traffic()[comm::Collective::all_gather].payload_bytes == 20);
  CHECK(grid.expert().traffic()[comm::Collective::all_to_all].calls == 3);

  const Kokkos::View<float*, MemSpace> gradient("gradient", 5), mine("mine", 5);
  Kokkos::deep_copy(gradient, 2.0f);
  const auto f32 = [](const auto& v) {
    return make_view(v.data(), DType::f32, {5}, exec_is_host ? MemorySpace::host : MemorySpace::device);
  };
  gather->scatter_sum(exec, f32(gradient), f32(mine));
  exec.space.fence("kvant::test::strategy");
  CHECK(Kokkos::create_mirror_view_and_copy(Kokkos::HostSpace(), mine)(4) == 2.0f);
  CHECK_THROWS_WITH(gather->scatter_sum(exec, view_of(full, {20}), view_of(part, {20})),
                    ContainsSubstring("a tensor of uint8 cannot be reduced"));
}
