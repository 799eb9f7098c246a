// Calibrations at work: the ranges that the calibrators find, and the codes made with them.
#include "quant/operand_quantizer.hpp"
#include "base/error.hpp"
#include "numerics/formats.hpp"
#include "reference/clipping_search.hpp"
#include "support/device_buffer.hpp"
#include "tensor/arena.hpp"

#include <catch2/catch_test_macros.hpp>

#include <algorithm>
#include <cmath>

using namespace kvant;
using namespace kvant::quant;
using kvant::test::DeviceBuffer;

namespace {

std::vector<double> tailed(int64_t count, uint64_t seed) {
  std::vector<double> x(static_cast<std::size_t>(count));
  for (std::size_t i = 0; i < x.size(); ++i) {
    const double u = static_cast<double>(uniform01(philox(seed, 6, i).word[0])) * 2 - 1;
    x[i] = static_cast<float>(u * u * u * (1 + static_cast<double>(i % 5)));
  }
  return x;
}

OperandRecipe recipe_of(const std::string& qtype, const std::string& calibration, Granularity granularity) {
  OperandRecipe recipe;
  recipe.qtype = qtype;
  recipe.codec = builtin_codec(qtype);
  recipe.calibration = parse_calibration(calibration);
  recipe.granularity = granularity;
  recipe.law.bound = recipe.law.limit = recipe.codec->bound(false);
  recipe.law.factor = recipe.calibration.factor;
  return recipe;
}

struct Quantized {
  std::vector<float> scale, clip;
  std::vector<int> codes;
};

Quantized run(const OperandRecipe& recipe, const std::vector<double>& x, int64_t rows, int64_t cols, Along along,
              int64_t scales, int64_t group = 0, const std::vector<double>& row_factors = {}) {
  Arena arena("operand test");
  const DeviceBuffer in(DType::f32, {rows, cols}, x), codes(recipe.codec->storage(), {rows, cols}),
      scale(DType::f32, {scales}), clip(DType::f32, {scales});
  const DeviceBuffer factors(DType::f32, {rows}, row_factors);
  QuantizeJob job;
  job.x = in;
  job.codes = codes;
  job.scale = scale;
  job.clip = clip;
  job.scale_along = along;
  job.uniform_group = group;
  job.law = recipe.law;
  job.magnitudes = arena.allocate(DType::i32, {scales});
  if (!row_factors.empty()) {
    job.multiplier = factors;
    job.multiplier_along = Along::row;
  }
  quantize_operand(Exec{}, arena, recipe, job);
  Kokkos::fence();
  return {scale.floats(), clip.floats(), codes.integers()};
}

/// Values of the i-th scale.
std::vector<double> cell(const std::vector<double>& x, int64_t cols, Along along, int64_t group_rows, int64_t i) {
  std::vector<double> v;
  const int64_t rows = static_cast<int64_t>(x.size()) / cols;
  for (int64_t r = 0; r < rows; ++r)
    for (int64_t c = 0; c < cols; ++c) {
      const int64_t which = along == Along::row ? r : along == Along::column ? r / group_rows * cols + c : 0;
      if (which == i) v.push_back(x[static_cast<std::size_t>(r * cols + c)]);
    }
  return v;
}

}  // namespace

TEST_CASE("each search finds its range for rows, columns, groups of columns and tensors", "[quant]") {
  struct Layout {
    int64_t rows, cols;
    Along along;
    int64_t group, scales;
  };
  const Layout layouts[] = {{5, 300, Along::row, 0, 5},
                            {300, 5, Along::column, 0, 5},
                            {60, 7, Along::column, 20, 21},
                            {130, 100, Along::tensor, 0, 1}};
  for (const Layout& l : layouts) {
    const auto x = tailed(l.rows * l.cols, 2);
    const int64_t group_rows = l.group > 0 ? l.group : l.rows;
    for (const char* method : {"rms,2.5", "percentile,90", "percentile,100", "mse", "mse,16,0.5"}) {
      INFO(method << " " << l.rows << " x " << l.cols);
      const OperandRecipe recipe = recipe_of("int4", method, Granularity::per_row);
      CHECK(recipe.calibration.clips());
      const Quantized q = run(recipe, x, l.rows, l.cols, l.along, l.scales, l.group);
      for (int64_t i = 0; i < l.scales; ++i) {
        auto v = cell(x, l.cols, l.along, group_rows, i);
        const float m = q.clip[static_cast<std::size_t>(i)];
        CHECK(q.scale[static_cast<std::size_t>(i)] == m / 7.0f);
        if (method[0] == 'r') {
          double sum = 0;
          for (const double y : v) sum += y * y;
          CHECK(std::fabs(m / (2.5 * std::sqrt(sum / static_cast<double>(v.size()))) - 1) < 4e-7);
        } else if (method[0] == 'p') {
          for (double& y : v) y = std::fabs(y);
          std::sort(v.begin(), v.end());
          const double percent = method[11] == '9' ? 0.9 : 1.0;
          CHECK(m == static_cast<float>(
                         v[static_cast<std::size_t>(std::ceil(percent * static_cast<double>(v.size()))) - 1]));
        } else {
          double largest = 0;
          for (const double y : v) largest = std::fmax(largest, std::fabs(y));
          const double at_largest = reference::squared_error<Int<4>>(v, largest, 7);
          CHECK(reference::squared_error<Int<4>>(v, static_cast<double>(m), 7) <= at_largest);
          if (v.size() >= 100) CHECK(static_cast<double>(m) < largest);  // a tail that is worth clipping
        }
      }
    }
  }
}

TEST_CASE("codes saturate beyond a range that was found", "[quant]") {
  std::vector<double> x(100, 1.0);
  x[17] = -50;
  x[3] = 0.5;
  const Quantized q = run(recipe_of("int8", "percentile,95", Granularity::per_tensor), x, 1, 100, Along::tensor, 1);
  CHECK(q.clip[0] == 1.0f);
  CHECK(q.codes[0] == 127);
  CHECK(q.codes[17] == -127);
  CHECK(q.codes[3] == 64);
  // most are zero: the percentile is, too, and the largest magnitude stands in for it
  std::vector<double> sparse(100, 0.0);
  sparse[5] = 2;
  CHECK(run(recipe_of("int8", "percentile,50", Granularity::per_tensor), sparse, 1, 100, Along::tensor, 1).clip[0] ==
        2.0f);
  sparse[5] = 0;
  CHECK(run(recipe_of("int8", "rms,7", Granularity::per_tensor), sparse, 1, 100, Along::tensor, 1).scale[0] == 1.0f);
}

TEST_CASE("a search sees the product with the multiplier", "[quant]") {
  const auto x = tailed(4 * 50, 3);
  std::vector<double> scaled = x;
  const std::vector<double> factors{1, 8, 0.25, 3};
  for (std::size_t i = 0; i < x.size(); ++i) scaled[i] = static_cast<float>(x[i]) * static_cast<float>(factors[i / 50]);
  const OperandRecipe recipe = recipe_of("float8_e5m2", "percentile,97", Granularity::per_column);
  const Quantized a = run(recipe, x, 4, 50, Along::column, 50, 0, factors),
                  b = run(recipe, scaled, 4, 50, Along::column, 50);
  CHECK(a.scale == b.scale);
  CHECK(a.codes == b.codes);
}

#ifndef KVANT_FPE
TEST_CASE("no search hides a NaN or an infinity", "[quant]") {
  for (const double bad : {std::nan(""), HUGE_VAL, -HUGE_VAL})
    for (const char* method : {"rms,2", "percentile,50", "mse"}) {
      auto x = tailed(3 * 40, 4);
      x[50] = bad;
      const Quantized q = run(recipe_of("int8", method, Granularity::per_row), x, 3, 40, Along::row, 3);
      INFO(method);
      for (std::size_t r = 0; r < 3; ++r) CHECK(std::isnan(q.scale[r]) == (r == 1));
    }
}
#endif

TEST_CASE("a search of nothing at all is legal", "[quant]") {
  CHECK(run(recipe_of("int8", "rms,2", Granularity::per_expert_column), {}, 0, 4, Along::column, 4).scale == std::vector<float>(4, 1.0f));
}

TEST_CASE("the reference's arithmetic in bfloat16 rounds the product, the scale and the quotient", "[quant]") {
  OperandRecipe recipe = recipe_of("int8", "absmax", Granularity::per_row);
  recipe.law.bound = recipe.codec->bound(true);
  recipe.law.limit = 3.4e38f;
  recipe.law.true_quotient = recipe.law.reference_guard = recipe.law.input_arithmetic = true;
  CHECK(goes_by_tiles(recipe, DType::bf16));
  CHECK_FALSE(goes_by_tiles(recipe, DType::f32));
  const auto x = tailed(3 * 20, 6);
  const std::vector<double> factors{0.7, 1.3, 2.9};
  Arena arena("operand test");
  const DeviceBuffer in(DType::bf16, {3, 20}, x), codes(DType::i8, {3, 20}), scale(DType::f32, {3}),
      multiplier(DType::f32, {3}, factors);
  QuantizeJob job;
  job.x = in;
  job.codes = codes;
  job.scale = scale;
  job.law = recipe.law;
  job.multiplier = multiplier;
  job.multiplier_along = Along::row;
  quantize_operand(Exec{}, arena, recipe, job);
  Kokkos::fence();
  const auto stored = in.floats(), scales = scale.floats(), factor = multiplier.floats();
  const auto narrow = [](float v) { return to_float(to_bf16(v)); };
  for (std::size_t r = 0; r < 3; ++r) {
    float largest = 0;
    for (std::size_t c = 0; c < 20; ++c)
      largest = std::fmax(largest, std::fabs(narrow(stored[r * 20 + c] * factor[r])));
    CHECK(scales[r] == narrow(largest / 127.5f));
    for (std::size_t c = 0; c < 20; ++c)
      CHECK(codes.integers()[r * 20 + c] == Int<8>::encode(narrow(narrow(stored[r * 20 + c] * factor[r]) / scales[r])));
  }
}

TEST_CASE("tiles are quantized with every calibration", "[quant]") {
  const auto x = tailed(16 * 64, 5);
  Arena arena("operand test");
  const DeviceBuffer in(DType::f32, {16, 64}, x), codes(DType::i8, {16, 64}), scale(DType::f32, {32}),
      zero(DType::i32, {32}), high(DType::f32, {32}), one(DType::f32, {1}), one_zero(DType::i32, {1});
  for (const char* method : {"absmax,0.5", "minmax", "rms,3", "percentile,99", "mse", "fixed,2", "fixed,-1,3"}) {
    INFO(method);
    const Calibration calibration = parse_calibration(method);
    TileJob job;
    job.x = in;
    job.tile = {1, 32, 1, 1};
    job.codes = codes;
    job.scale = calibration.measured ? scale : one;
    if (calibration.measured) job.high = high;
    if (calibration.zero_point) job.zero_point = calibration.measured ? zero : one_zero;
    job.law.bound = job.law.limit = 127;
    quantize_tiles(Exec{}, arena, *builtin_codec("int8"), calibration, job);
    Kokkos::fence();
    const auto scales = (calibration.measured ? scale : one).floats();
    const auto zeros = (calibration.measured ? zero : one_zero).integers(), code = codes.integers();
    for (std::size_t i = 0; i < x.size(); ++i) {
      const std::size_t t = calibration.measured ? i / 32 : 0;
      const double z = calibration.zero_point ? zeros[t] : 0, s = static_cast<double>(scales[t]);
      const double expected = std::fmin(std::fmax(x[i] / s + z, calibration.zero_point ? -128 : -127), 127);
      REQUIRE(std::fabs(code[i] - expected) <= 0.5001);
    }
  }
}
