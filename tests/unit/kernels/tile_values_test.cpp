#include "kernels/tile_values.hpp"
#include "kernels/quantize.hpp"
#include "base/error.hpp"
#include "numerics/bf16.hpp"
#include "reference/quantize_tiles.hpp"
#include "support/device_buffer.hpp"

#include <catch2/catch_test_macros.hpp>

#include <cmath>
#include <limits>
#include <map>

using namespace kvant;
using kvant::reference::TiledTensor;
using kvant::test::DeviceBuffer;

namespace {

struct Case {
  TiledTensor host;
  Shape shape;
  TileShape tile{1, 1, 1, 1};
};

Case make(std::vector<int64_t> shape, std::vector<int64_t> tile) {
  Case c{{shape, tile, {}}, {}, {1, 1, 1, 1}};
  for (std::size_t a = 0; a < shape.size(); ++a) {
    c.shape.dim[a] = shape[a];
    c.tile[a] = tile[a];
    ++c.shape.rank;
  }
  for (int64_t i = 0; i < c.host.count(); ++i) c.host.x.push_back(static_cast<double>(i % 251) - 100);
  return c;
}

std::vector<Case> cases() {
  return {
      make({5, 7}, {5, 7}), make({5, 7}, {1, 7}),        make({5, 7}, {5, 1}),        make({6, 8}, {3, 4}),
      make({24}, {8}),      make({4, 6, 10}, {2, 3, 5}), make({4, 6, 10}, {4, 3, 1}), make({2, 4, 6, 5}, {1, 2, 3, 5})};
}

}  // namespace

TEST_CASE("the values of each tile stand in a row, in order", "[kernels][tiles]") {
  for (const Case& c : cases()) {
    for (const DType type : {DType::f32, DType::bf16}) {
      const int64_t tiles = c.host.tiles(), each = c.host.count() / tiles;
      const DeviceBuffer x(type, c.shape, c.host.x), values(DType::f32, {tiles, each});
      TileJob job;
      job.x = x;
      job.tile = c.tile;
      gather_tiles(Exec{}, job, values);
      Kokkos::fence();
      std::map<int64_t, std::vector<float>> expected;
      for (int64_t i = 0; i < c.host.count(); ++i)
        expected[c.host.tile_of(i)].push_back(static_cast<float>(c.host.x[static_cast<std::size_t>(i)]));
      const auto got = values.floats();
      for (int64_t t = 0; t < tiles; ++t)
        CHECK(std::vector<float>(got.begin() + t * each, got.begin() + (t + 1) * each) == expected[t]);
      CHECK_THROWS_AS(gather_tiles(Exec{}, job, values.view().slice_rows(0, tiles - 1)), Error);
    }
  }
}

TEST_CASE("multipliers of rows and columns are part of the values", "[kernels][tiles]") {
  const Case c = make({4, 6}, {2, 3});
  const DeviceBuffer x(DType::f32, c.shape, c.host.x), values(DType::f32, {4, 6});
  const DeviceBuffer rows(DType::f32, {4}, std::vector<double>{1, 2, 3, 4}),
      cols(DType::f32, {6}, std::vector<double>{1, 2, 3, 4, 5, 6});
  TileJob job;
  job.x = x;
  job.tile = c.tile;
  for (const bool by_row : {true, false}) {
    job.multiplier = by_row ? rows : cols;
    job.multiplier_along = by_row ? Along::row : Along::column;
    gather_tiles(Exec{}, job, values);
    Kokkos::fence();
    const auto got = values.floats();
    CHECK(got[0] == c.host.x[0]);
    CHECK(got[4] == static_cast<float>(c.host.x[7] * 2));  // row 1, column 1 of the first tile
    CHECK(got[23] == static_cast<float>(c.host.x[23] * (by_row ? 4 : 6)));
  }
}

TEST_CASE("a gradient is zero where the tile of its operand was clipped", "[kernels][tiles]") {
  for (const Case& c : cases()) {
    const int64_t tiles = c.host.tiles();
    std::vector<double> high(static_cast<std::size_t>(tiles)), low(high.size());
    for (std::size_t t = 0; t < high.size(); ++t) {
      high[t] = static_cast<double>(t % 5) * 20;
      low[t] = -static_cast<double>(t % 3) * 30;
    }
    std::vector<double> gradient(static_cast<std::size_t>(c.host.count()));
    for (std::size_t i = 0; i < gradient.size(); ++i) gradient[i] = static_cast<double>(i) + 1;
    const DeviceBuffer upper(DType::f32, {tiles}, high), lower(DType::f32, {tiles}, low);
    const DeviceBuffer src(DType::f32, c.shape, gradient);
    for (const DType type : {DType::f32, DType::bf16}) {
      for (const bool both : {true, false}) {
        const DeviceBuffer x(type, c.shape, c.host.x);
        DeviceBuffer dst(type, c.shape, std::vector<double>(gradient.size(), 1));
        TileMask mask{x, c.tile, both ? lower.view() : TensorView{}, upper};
        store_where_unclipped(Exec{}, mask, src, dst, true);
        Kokkos::fence();
        const auto got = dst.floats();
        for (std::size_t i = 0; i < got.size(); ++i) {
          const auto t = static_cast<std::size_t>(c.host.tile_of(static_cast<int64_t>(i)));
          const double v = c.host.x[i], lowest = both ? low[t] : -high[t];
          const double expected = 1 + (lowest <= v && v <= high[t] ? gradient[i] : 0);
          REQUIRE(got[i] == to_float(type == DType::bf16 ? to_bf16(static_cast<float>(expected)) : bf16_t{}) +
                                (type == DType::f32 ? static_cast<float>(expected) : 0));
        }
      }
    }
  }
  const Case c = make({6, 8}, {3, 4});
  const DeviceBuffer x(DType::f32, c.shape), src(DType::f32, c.shape), bounds(DType::f32, {3}),
      dst(DType::f32, c.shape);
  TileMask mask{x, c.tile, {}, bounds};
  CHECK_THROWS_AS(store_where_unclipped(Exec{}, mask, src, dst, false), Error);
  mask.high = bounds.view().slice_rows(0, 1);
  store_where_unclipped(Exec{}, mask, src, dst, false);
  CHECK_THROWS_AS(store_where_unclipped(Exec{}, mask, src.view().slice_rows(0, 3), dst, false), Error);
}

TEST_CASE("ranges that were found are settled", "[kernels][tiles]") {
  const double inf = std::numeric_limits<double>::infinity(), nan = std::numeric_limits<double>::quiet_NaN();
  const std::vector<double> largest{4, 4, 4, 0, inf, nan, inf, 1e-30}, range{3, 0, nan, 0, 3, 3, inf, 0};
  for (const bool reference : {false, true}) {
    const DeviceBuffer magnitudes(DType::f32, {8}, largest), ranges(DType::f32, {8}, range);
    settle_ranges(Exec{}, magnitudes, reference, ranges);
    Kokkos::fence();
    const auto got = ranges.floats();
    CHECK(got[0] == 3);
    CHECK(got[3] == 0);
    CHECK(std::isnan(got[4]));
    CHECK(std::isnan(got[5]));
    // Ours: what is not above 0 becomes the magnitude. The reference's: the range stays, an infinite one beside infinity too.
    CHECK(got[1] == (reference ? 0 : 4));
    CHECK((reference ? std::isnan(got[2]) : got[2] == 4));
    CHECK((reference ? std::isinf(got[6]) : std::isnan(got[6])));
    CHECK(got[7] == (reference ? 0.0f : 1e-30f));
  }
  const DeviceBuffer one(DType::f32, {1}, std::vector<double>{1}), two(DType::f32, {2}, std::vector<double>{1, 1});
  CHECK_THROWS_AS(settle_ranges(Exec{}, one, false, two), Error);
}

TEST_CASE("a product with a multiplier is rounded to bf16 before it is quantized", "[kernels][tiles]") {
  const std::vector<double> x{1, -3, 0.5, 100, 7, -1.5}, factors{1.0 / 3, 3};
  for (const Along along : {Along::row, Along::column, Along::tensor}) {
    const DeviceBuffer values(DType::bf16, {2, 3}, x), product(DType::bf16, {2, 3}, std::vector<double>(6));
    const DeviceBuffer multiplier(DType::f32, {3}, std::vector<double>{factors[0], factors[1], 0.1});
    QuantizeJob job;
    job.x = values;
    job.multiplier = multiplier;
    job.multiplier_along = along;
    store_multiplied(Exec{}, job, product);
    Kokkos::fence();
    const auto got = product.floats(), m = multiplier.floats();
    for (std::size_t i = 0; i < 6; ++i) {
      const float factor = m[along == Along::row ? i / 3 : along == Along::column ? i % 3 : 0];
      CHECK(got[i] == to_float(to_bf16(static_cast<float>(x[i]) * factor)));
    }
    CHECK_THROWS_AS(store_multiplied(Exec{}, QuantizeJob{}, product), Error);
  }
}
