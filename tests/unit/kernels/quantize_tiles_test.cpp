// Kvant's own arithmetic by tiles, against double precision.
#include "support/tile_case.hpp"

#include <catch2/catch_template_test_macros.hpp>
#include <catch2/catch_test_macros.hpp>
#include <catch2/matchers/catch_matchers_string.hpp>

using namespace kvant;
using kvant::reference::TiledTensor;
using kvant::test::DeviceBuffer;
using kvant::test::tile_values_of;
using kvant::test::TileRun;

namespace {

TiledTensor tensor(std::vector<int64_t> shape, std::vector<int64_t> tile, uint64_t seed = 5) {
  TiledTensor t{std::move(shape), std::move(tile), {}};
  t.x = tile_values_of(t.count(), seed, t.shape.back());
  return t;
}

/// Whole tensors, rows, columns, blocks along either axis, 2-D blocks, three and four axes, tiles larger than the
/// cache.
std::vector<TiledTensor> tensors() {
  return {tensor({1, 1}, {1, 1}),
          tensor({13, 37}, {13, 37}),
          tensor({13, 37}, {1, 37}),
          tensor({13, 37}, {13, 1}),
          tensor({13, 64}, {1, 32}),
          tensor({64, 13}, {32, 1}),
          tensor({64, 48}, {32, 16}),
          tensor({13, 37}, {1, 1}),
          tensor({6, 8, 10}, {1, 8, 1}),
          tensor({6, 8, 10}, {6, 4, 1}),
          tensor({6, 8, 10}, {3, 4, 5}),
          tensor({4, 6, 5, 12}, {2, 1, 5, 4}),
          tensor({4, 6, 5, 12}, {4, 3, 1, 12}),
          tensor({3, 40000}, {3, 40000}),
          tensor({5000, 20}, {5000, 1}),
          tensor({5000, 20}, {5000, 10}),
          tensor({2, 36000}, {1, 18000}),
          tensor({300, 900}, {300, 450}),
          tensor({31}, {31})};
}

std::string described(const TiledTensor& t) {
  std::string text;
  for (std::size_t a = 0; a < t.shape.size(); ++a)
    text += std::to_string(t.shape[a]) + "/" + std::to_string(t.tile[a]) + " ";
  return text;
}

}  // namespace

TEMPLATE_TEST_CASE("every tile has its scale and the nearest codes", "[kernels][quantize]", Int<8>, Int<4>, E4M3fn,
                   E2M1) {
  for (const TiledTensor& t : tensors()) {
    for (const DType type : {DType::f32, DType::bf16}) {
      INFO(described(t) << name_of(type));
      CHECK(TileRun<TestType>(type, t).run().mistakes() == 0);
    }
  }
}

TEMPLATE_TEST_CASE("integers with zero points use the whole range", "[kernels][quantize]", Int<8>, Int<4>, Int<16>,
                   UInt<8>) {
  for (TiledTensor t : tensors()) {
    for (double& v : t.x) v = static_cast<float>(v + 0.3 * std::fabs(v));  // not symmetric
    INFO(described(t));
    CHECK(TileRun<TestType>(DType::f32, t, true).run().mistakes() == 0);
  }
}

TEMPLATE_TEST_CASE("an outlier is found wherever it stands in a tile", "[kernels][quantize]", Int<5>, Int<8>, Int<16>,
                   UInt<8>, E4M3fn, E4M3, E4M3fnuz, E4M3b11fnuz, E3M4) {
  const int64_t rows = 6, cols = 62;  // tiles of 31: whole vectors and every remainder
  for (int64_t at = 0; at < rows * cols; ++at) {
    for (const double outlier : {1e4, -1e4}) {
      TiledTensor t = tensor({rows, cols}, {3, 31}, 6);
      for (double& v : t.x) v = std::fmin(std::fmax(v, -1.0), 1.0);
      t.x[static_cast<std::size_t>(at)] = outlier;
      TileRun<TestType> run(DType::f32, t);
      run.run();
      const auto scales = run.scale.floats();
      for (std::size_t i = 0; i < scales.size(); ++i)
        REQUIRE((scales[i] > 1e4f / TestType::max_finite * 0.999f) == (static_cast<int64_t>(i) == t.tile_of(at)));
      const auto range = run.high.floats();
      REQUIRE(range[static_cast<std::size_t>(t.tile_of(at))] == 1e4f);
    }
  }
}

TEST_CASE("block scales by the declared rule", "[kernels][quantize]") {  // report D07
  const auto scale_of = [](ScaleRule rule, double largest, float bound) {
    TiledTensor t{{1, 32}, {1, 32}, std::vector<double>(32, largest / 1000)};
    t.x[9] = -largest;
    TileRun<E4M3fn> run(DType::f32, t);
    run.job.law.bound = bound;
    run.job.law.rule = rule;
    run.run();
    return std::pair(run.scale.floats()[0], run.decoded(9, run.codes.integers(), run.scale.floats(), {}));
  };
  using enum ScaleRule;
  CHECK(scale_of(power_of_two_up, 633.5, 448) == std::pair(2.0f, -640.0));
  CHECK(E8M0::encode(scale_of(power_of_two_up, 633.5, 448).first) == 128);
  CHECK(scale_of(power_of_two_up, 500, 448) == std::pair(2.0f, -512.0));
  CHECK(scale_of(power_of_two_up, 150, 448).first == 0.5f);
  CHECK(scale_of(power_of_two_up, 448, 448) == std::pair(1.0f, -448.0));
  CHECK(scale_of(power_of_two_up, 448.00003, 448).first == 2.0f);
  CHECK(scale_of(power_of_two_up, std::ldexp(1.75, -100), 448).first == std::ldexp(1.0f, -108));
  CHECK(scale_of(power_of_two_down, 500, 448) == std::pair(1.0f, -448.0));
  CHECK(scale_of(power_of_two_down, 633.5, 448) == std::pair(2.0f, -640.0));
  CHECK(scale_of(power_of_two_down, 511.9, 448) == std::pair(1.0f, -448.0));
  // nothing lies beyond the range, whatever the size of the block's maximum
  for (int i = 0; i < 400; ++i) {
    const double largest = static_cast<float>(std::exp2(-20.0 + i * 0.1));
    REQUIRE(largest / static_cast<double>(scale_of(power_of_two_up, largest, 448).first) <= 448.0);
  }
}

TEST_CASE("scales in e4m3, alone and under one scale for the tensor", "[kernels][quantize]") {
  TiledTensor t = tensor({8, 64}, {1, 16}, 8);
  for (std::size_t i = 0; i < 16; ++i) t.x[i] = 0;       // a dead block
  for (std::size_t i = 16; i < 32; ++i) t.x[i] *= 1e-9;  // one that e4m3 scales cannot reach alone
  TileRun<E2M1> alone(DType::f32, t);
  alone.job.law.rule = ScaleRule::e4m3;
  alone.run();
  const auto one_level = alone.scale.floats();
  const auto ranges = reference::ranges(t);
  CHECK(one_level[0] == 1.0f);
  CHECK(one_level[1] == 0x1p-9f);
  for (std::size_t i = 2; i < one_level.size(); ++i) {
    CHECK(E4M3fn::decode(E4M3fn::encode(one_level[i])) == one_level[i]);
    if (one_level[i] >= 0x1p-6f) CHECK(std::fabs(one_level[i] * 6 / ranges[i].size() - 1) < 0.0626);
  }
  double largest = 0;
  for (const auto& r : ranges) largest = std::fmax(largest, r.size());
  const DeviceBuffer outer(DType::f32, {1}, std::vector<double>{largest / (6.0 * 448.0)});
  TileRun<E2M1> two(DType::f32, t);
  two.job.law.rule = ScaleRule::e4m3;
  two.job.outer = outer;
  two.run();
  const auto two_level = two.scale.floats();
  for (std::size_t i = 0; i < two_level.size(); ++i) {
    if (ranges[i].size() == 0) continue;
    const float part = two_level[i] / outer.floats()[0];
    CHECK(std::fabs(E4M3fn::decode(E4M3fn::encode(part)) - part) <= 1e-6f * part);
    if (part >= 0x1p-6f) CHECK(std::fabs(two_level[i] * 6 / ranges[i].size() - 1) < 0.0626);
  }
}

TEST_CASE("zero tiles are zeros and tiny ones live", "[kernels][quantize]") {  // report D04
  TiledTensor t{{256, 256}, {128, 128}, std::vector<double>(65536, 0.0)};
  t.x[0] = 3;
  for (const auto& tile : {std::vector<int64_t>{1, 128}, {128, 128}}) {
    t.tile = tile;
    TileRun<E4M3fn> run(DType::f32, t);
    run.run();
    const auto code = run.codes.integers();
    CHECK(code[0] == 0x7e);
    for (std::size_t i = 1; i < code.size(); ++i) REQUIRE(code[i] == 0);
    const auto scale = run.scale.floats();
    for (std::size_t i = 1; i < scale.size(); ++i) CHECK(scale[i] == 1.0f);
  }
  for (const double tiny : {1e-10, 1e-30, 1e-40, 1.4e-45, 3.4e38}) {
    for (const ScaleRule rule : {ScaleRule::exact, ScaleRule::power_of_two_up, ScaleRule::power_of_two_down}) {
      TiledTensor u{{1, 4}, {1, 4}, {tiny, -tiny / 2, 0, tiny}};
      TileRun<E5M2> run(DType::f32, u);
      run.job.law.rule = rule;
      run.run();
      const float s = run.scale.floats()[0];
      CHECK(std::isfinite(s));
      CHECK(s >= 0x1p-126f);
      if (tiny >= 1e-30) CHECK(std::fabs(run.decoded(0, run.codes.integers(), {s}, {}) / tiny - 1) < 0.13);
    }
  }
  TiledTensor wide{{1, 4}, {1, 4}, {3.4e38, -3.4e38, 1, 0}};
  TileRun<Int<8>> run(DType::f32, wide, true);
  run.run();
  CHECK(std::isfinite(run.scale.floats()[0]));
  CHECK(run.codes.integers()[0] == 127);
  CHECK(run.codes.integers()[1] == -128);
}

#ifndef KVANT_FPE
TEST_CASE("NaN and infinity poison the scale of their tile and no other", "[kernels][quantize]") {
  for (const bool zero_point : {false, true}) {
    for (const float bad : {std::nanf(""), -std::nanf(""), HUGE_VALF, -HUGE_VALF}) {
      TiledTensor t = tensor({4, 64}, {2, 32}, 9);
      t.x[64 * 3 + 40] = bad;
      TileRun<Int<8>> run(DType::f32, t, zero_point);
      const auto scales = run.run().scale.floats();
      for (std::size_t i = 0; i < 4; ++i) CHECK(std::isnan(scales[i]) == (i == 3));
      TileRun<Int<8>> fixed(DType::f32, t, false, 1);
      fixed.job.statistic = Statistic::constant;
      fixed.job.low_limit = -4;
      fixed.job.high_limit = 4;
      CHECK(std::isnan(fixed.run().scale.floats()[0]));
    }
  }
}
#endif

TEST_CASE("given and constant ranges saturate", "[kernels][quantize]") {
  TiledTensor t{{2, 3}, {1, 3}, {0.5, -8, 100, 0.25, -0.25, 1}};
  TileRun<Int<8>> given(DType::f32, t);
  given.job.statistic = Statistic::given;
  given.high.put(std::vector<double>{12.7, 0});
  given.run();
  CHECK(given.codes.integers() == std::vector<int>{5, -80, 127, 0, 0, 1});
  CHECK(given.scale.floats()[1] == 1.0f);
  TileRun<Int<4>> constant(DType::f32, t, true, 1);
  constant.job.statistic = Statistic::constant;
  constant.job.low_limit = -1;
  constant.job.high_limit = 2;
  constant.run();
  CHECK(constant.scale.floats()[0] == 0.2f);
  CHECK(constant.zero.integers()[0] == -3);
  CHECK(constant.codes.integers() == std::vector<int>{0, -8, 7, -2, -4, 2});
}

TEST_CASE("rows may be strided and have multipliers, columns too", "[kernels][quantize]") {
  const int64_t rows = 12, cols = 40;
  const auto wide = tile_values_of(rows * 50, 11, 50);
  const auto row_factor = tile_values_of(rows, 12), column_factor = tile_values_of(cols, 13);
  for (const bool by_row : {true, false}) {
    TiledTensor t{{rows, cols}, {4, 20}, {}};
    for (int64_t r = 0; r < rows; ++r)
      for (int64_t c = 0; c < cols; ++c) t.x.push_back(wide[static_cast<std::size_t>(r * 50 + 7 + c)]);
    TileRun<Int<8>> run(DType::f32, t);
    const DeviceBuffer x(DType::f32, {rows, 50}, wide);
    const DeviceBuffer factors(DType::f32, {by_row ? rows : cols}, by_row ? row_factor : column_factor);
    run.job.x = x.view().slice_cols(7, cols);
    run.job.multiplier = factors;
    run.job.multiplier_along = by_row ? Along::row : Along::column;
    for (int64_t i = 0; i < rows * cols; ++i)
      run.host.x[static_cast<std::size_t>(i)] =
          static_cast<float>(run.host.x[static_cast<std::size_t>(i)]) *
          static_cast<float>(by_row ? row_factor[static_cast<std::size_t>(i / cols)]
                                    : column_factor[static_cast<std::size_t>(i % cols)]);
    CHECK(run.run().mistakes() == 0);
  }
}

TEST_CASE("noise belongs to the element, wherever its row lies", "[kernels][quantize]") {
  const int64_t rows = 10, cols = 24;
  const TiledTensor t = tensor({rows, cols}, {1, cols}, 14);
  const auto codes_of = [&](auto&& change) {
    TileRun<E4M3fn> run(DType::f32, t);
    run.job.noise = {Rounding::uniform, 7, noise_stream(stream_of("g"), 3, 0), 0, {}};
    change(run);
    return run.run().codes.integers();
  };
  const auto all = codes_of([](auto&) {});
  CHECK(all == codes_of([](auto&) {}));
  CHECK(all != codes_of([](auto& run) { run.job.noise.seed = 8; }));
  CHECK(all != codes_of([](auto& run) { run.job.noise.rounding = Rounding::nearest; }));
  CHECK(all != codes_of([](auto& run) { run.job.noise.stream = noise_stream(stream_of("g"), 4, 0); }));

  // rows in another order, with their numbers
  std::vector<int> ids;
  TiledTensor shuffled = t;
  for (int64_t r = 0; r < rows; ++r) {
    ids.push_back(static_cast<int>(r * 3 % rows));
    for (int64_t c = 0; c < cols; ++c)
      shuffled.x[static_cast<std::size_t>(r * cols + c)] = t.x[static_cast<std::size_t>(ids.back() * cols + c)];
  }
  TileRun<E4M3fn> run(DType::f32, shuffled);
  const DeviceBuffer numbers(DType::i32, {rows}, ids);
  run.job.noise = {Rounding::uniform, 7, noise_stream(stream_of("g"), 3, 0), 0, numbers};
  const auto got = run.run().codes.integers();
  for (int64_t r = 0; r < rows; ++r)
    for (int64_t c = 0; c < cols; ++c)
      REQUIRE(got[static_cast<std::size_t>(r * cols + c)] ==
              all[static_cast<std::size_t>(ids[static_cast<std::size_t>(r)] * cols + c)]);

  // the lower half alone, as another rank has it
  TiledTensor half{{5, cols}, {1, cols}, {t.x.begin() + 5 * cols, t.x.end()}};
  TileRun<E4M3fn> second(DType::f32, half);
  second.job.noise = {Rounding::uniform, 7, noise_stream(stream_of("g"), 3, 0), 5, {}};
  CHECK(second.run().codes.integers() == std::vector<int>(all.begin() + 5 * cols, all.end()));
}

TEST_CASE("a decoded tensor is (code - z) · s", "[kernels][quantize]") {
  const TiledTensor t = tensor({6, 8, 10}, {3, 4, 5}, 15);
  for (const bool zero_point : {false, true}) {
    TileRun<Int<8>> run(DType::f32, t, zero_point);
    run.run();
    const DeviceBuffer values(DType::f32, {6, 8, 10});
    TileDecode job{run.job.codes, run.job.tile, run.job.scale, run.job.zero_point, values, false};
    dequantize_tiles<Int<8>>(Exec{}, job);
    Kokkos::fence();
    const auto got = values.floats();
    const auto code = run.codes.integers();
    const auto scales = run.scale.floats();
    const auto zeros = zero_point ? run.zero.integers() : std::vector<int>{};
    for (std::size_t i = 0; i < got.size(); ++i)
      REQUIRE(got[i] == static_cast<float>(run.decoded(static_cast<int64_t>(i), code, scales, zeros)));
    job.scale = run.scale.view().slice_rows(0, 2);
    CHECK_THROWS_AS(dequantize_tiles<Int<8>>(Exec{}, job), Error);
  }
}

TEST_CASE("axes, channels and tiles give the tile's shape, or all that is wrong with them", "[kernels][quantize]") {
  using Catch::Matchers::ContainsSubstring;
  const Shape shape{6, 64, 10};
  const auto of = [&](std::vector<int> channels, std::vector<AxisTile> tiles) {
    return tile_shape(shape, channels, tiles);
  };
  CHECK(of({0}, {}) == TileShape{1, 64, 10, 1});
  CHECK(of({}, {{1, 16, 0}}) == TileShape{6, 16, 10, 1});
  CHECK(of({2}, {{1, 0, 0.25}}) == TileShape{6, 16, 1, 1});
  CHECK(of({}, {{1, 0, 1.0}}) == of({}, {}));
  CHECK(of({}, {{1, 1, 0}}) == of({1}, {}));
  CHECK_THROWS_WITH(of({}, {{1, 30, 0}, {2, 3, 0}}),
                    ContainsSubstring("axis 1 of 64 by 30") && ContainsSubstring("axis 2 of 10 by 3"));  // report D13
  CHECK_THROWS_WITH(of({1}, {{1, 16, 0}}), ContainsSubstring("named twice"));
  CHECK_THROWS_WITH(of({3}, {}), ContainsSubstring("no axis 3"));
  CHECK_THROWS_WITH(tile_count(shape, {4, 64, 3, 1}), ContainsSubstring("axis 0 of 6 by 4, axis 2 of 10 by 3"));
  CHECK(tile_count(shape, {2, 64, 1, 1}) == 30);
}

TEST_CASE("an empty tensor has no tiles", "[kernels][quantize]") {
  TileRun<Int<8>> run(DType::f32, TiledTensor{{0, 12}, {1, 12}, {}});
  run.run();
  TileRun<Int<8>> constant(DType::f32, TiledTensor{{0, 12}, {1, 12}, {}}, false, 1);
  constant.job.statistic = Statistic::constant;
  constant.job.low_limit = -127;
  constant.job.high_limit = 127;
  CHECK(constant.run().scale.floats()[0] == 1.0f);
}

TEST_CASE("a job by tiles whose parts do not fit is refused", "[kernels][quantize]") {
  const TiledTensor t = tensor({6, 32}, {3, 16}, 16);
  const auto refused = [&]<class F>(F, auto&& change) {
    TileRun<F> run(DType::f32, t);
    change(run);
    CHECK_THROWS_AS(quantize_tiles<F>(Exec{}, run.job), Error);
  };
  refused(Int<8>{}, [](auto& run) { run.job.x.dtype = DType::i32; });
  refused(Int<8>{}, [](auto& run) { run.job.tile = {4, 16}; });
  refused(Int<8>{}, [](auto& run) { run.job.codes = run.job.codes.slice_rows(0, 3); });
  refused(Int<8>{}, [](auto& run) { run.job.codes.dtype = DType::i16; });
  refused(Int<8>{}, [](auto& run) { run.job.scale = run.job.scale.slice_rows(0, 3); });
  refused(Int<8>{}, [](auto& run) { run.job.statistic = Statistic::minmax; });
  refused(Int<8>{}, [](auto& run) {
    run.job.statistic = Statistic::given;
    run.job.high = {};
  });
  refused(Int<8>{}, [](auto& run) { run.job.statistic = Statistic::constant; });
  refused(Int<8>{}, [](auto& run) { run.job.multiplier = run.job.scale; });
  refused(Int<8>{}, [](auto& run) { run.job.outer = run.job.scale.slice_rows(0, 1); });
  refused(Int<8>{}, [](auto& run) {
    run.job.zero_point = run.zero;
    run.job.law.rule = ScaleRule::power_of_two_up;
  });
  refused(Int<8>{}, [](auto& run) {  // strided, and no matrix
    run.job.x = run.job.x.reshaped({6, 4, 8}).slice_cols(0, 4);
    run.job.tile = {3, 4, 4, 1};
  });
  refused(Int<8>{}, [](auto& run) { run.job.noise.row_ids = run.zero; });
  refused(Int<8>{}, [](auto& run) {  // the lower end is missing
    run.job.zero_point = run.zero;
    run.job.statistic = Statistic::given;
    run.job.low = {};
  });
  refused(Int<8>{}, [](auto& run) {
    run.job.x = run.job.x.reshaped({2, 3, 32});
    run.job.codes = run.job.codes.reshaped({2, 3, 32});
    run.job.tile = {1, 3, 16, 1};
    run.job.noise = {Rounding::uniform, 1, 1, 0, {}, true, {}};
  });
  refused(E4M3fn{}, [](auto& run) { run.job.zero_point = run.zero; });
  TileRun<Int<8>> large(DType::f32, tensor({5000, 20}, {5000, 1}));
  CHECK(tile_workspace(large.job) == 40);
  CHECK_THROWS_AS(quantize_tiles<Int<8>>(Exec{}, large.job), Error);
}
