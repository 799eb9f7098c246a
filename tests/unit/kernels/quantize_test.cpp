#include "reference/quantize.hpp"
#include "kernels/quantize_kernel.hpp"
#include "numerics/float.hpp"
#include "numerics/int.hpp"
#include "support/device_buffer.hpp"

#include <catch2/catch_template_test_macros.hpp>
#include <catch2/catch_test_macros.hpp>

#include <cmath>
#include <string>

namespace {

using namespace kvant;
using kvant::test::DeviceBuffer;
namespace ref = kvant::reference;

std::vector<double> noise(int64_t count, uint64_t seed, double scale = 1.0) {
  std::vector<double> x(static_cast<std::size_t>(count));
  for (std::size_t i = 0; i < x.size(); ++i) {
    const Random4 r = philox(seed, 1, i);
    x[i] = static_cast<float>(scale * (uniform01(r.word[0]) + uniform01(r.word[1]) - 1.0));
  }
  return x;
}

template <class F>
constexpr DType code_type() {
  return std::signed_integral<typename F::storage> ? DType::i8 : DType::u8;
}

ScaleLaw law_of(double bound) {
  ScaleLaw law;
  law.bound = law.limit = static_cast<float>(bound);
  return law;
}

/// One job with everything that it needs, and its comparison with the reference.
template <class F>
struct Run {
  ref::QuantizeCase host;
  DeviceBuffer x, row_factor, column_factor, offsets, codes, scale, magnitudes;
  QuantizeJob job;

  Run(DType dtype, const ref::QuantizeCase& given, Along along, int64_t scales) : host(given) {
    const Shape shape{host.rows, host.cols};
    x = DeviceBuffer(dtype, shape, host.x);
    const auto stored = x.floats();
    host.x.assign(stored.begin(), stored.end());
    codes = DeviceBuffer(code_type<F>(), shape);
    codes.poison();
    scale = DeviceBuffer(DType::f32, {scales});
    scale.poison();
    magnitudes = DeviceBuffer(DType::i32, {scales});
    magnitudes.poison();
    job.x = x;
    job.codes = codes;
    job.scale = scale;
    job.scale_along = along;
    job.magnitudes = magnitudes;
    job.law = law_of(F::max_finite);
    if (!host.row_factor.empty()) {
      row_factor = DeviceBuffer(DType::f32, {host.rows}, host.row_factor);
      job.multiplier = row_factor;
      job.multiplier_along = Along::row;
    }
    if (!host.column_factor.empty()) {
      column_factor = DeviceBuffer(DType::f32, {host.groups, host.cols}, host.column_factor);
      job.multiplier = column_factor;
      job.multiplier_along = Along::column;
    }
  }

  void set_groups(const std::vector<int>& bounds) {
    offsets = DeviceBuffer(DType::i32, {static_cast<int64_t>(bounds.size())}, bounds);
    job.offsets = offsets;
    host.groups = static_cast<int64_t>(bounds.size()) - 1;
    host.group_of_row.assign(static_cast<std::size_t>(host.rows), -1);
    for (std::size_t g = 0; g + 1 < bounds.size(); ++g)
      for (int r = bounds[g]; r < bounds[g + 1]; ++r)
        host.group_of_row[static_cast<std::size_t>(r)] = static_cast<int64_t>(g);
  }

  /// Every scale within one unit in the last place, every code the nearest to v/s (a tie may fall either way: v·(1/s)
  /// is rounded).
  int mistakes(ref::ScaleIndex index) const {
    const auto m = ref::magnitudes(host, index, scale.view().numel());
    const auto scales = scale.floats();
    const auto code = codes.integers();
    int wrong = 0;
    for (std::size_t i = 0; i < m.size(); ++i) {
      const double expected = ref::scale(m[i], job.law.bound, job.law.factor);
      if (std::fabs(scales[i] - expected) > 1.2e-7 * expected) ++wrong;
    }
    for (int64_t r = 0; r < host.rows; ++r) {
      for (int64_t c = 0; c < host.cols; ++c) {
        const int got = code[static_cast<std::size_t>(r * host.cols + c)];
        const auto decoded = static_cast<double>(F::decode(static_cast<typename F::storage>(got)));
        if (host.group(r) < 0) {
          if (decoded != 0) ++wrong;
          continue;
        }
        const double ratio = host.value(r, c) / scales[static_cast<std::size_t>(index(host, r, c))];
        const auto nearest = static_cast<double>(F::decode(F::encode(static_cast<float>(ratio))));
        // where the nearest code is missed, the one taken is as near but for rounding
        const double excess = std::fabs(decoded - ratio) - std::fabs(nearest - ratio);
        if (excess > 3e-7 * std::fabs(ratio)) ++wrong;
      }
    }
    return wrong;
  }
};

Exec exec() { return {}; }

ref::QuantizeCase matrix(int64_t rows, int64_t cols, uint64_t seed) {
  ref::QuantizeCase q;
  q.rows = rows;
  q.cols = cols;
  q.x = noise(rows * cols, seed);
  for (int64_t r = 0; r < rows; ++r)  // rows and columns of very different size
    for (int64_t c = 0; c < cols; ++c)
      q.x[static_cast<std::size_t>(r * cols + c)] *= std::ldexp(1.0, static_cast<int>((r * 7 + c * 3) % 23) - 11);
  return q;
}

const int64_t shapes[][2] = {{1, 1}, {3, 5}, {17, 64}, {33, 257}, {64, 300}, {131, 31}, {5, 20000}};

}  // namespace

TEMPLATE_TEST_CASE("rows, columns and whole tensors are quantized to the nearest code", "[kernels][quantize]", Int<8>,
                   E4M3fn, E5M2) {
  for (const auto& [rows, cols] : shapes) {
    for (const DType dtype : {DType::f32, DType::bf16}) {
      ref::QuantizeCase q = matrix(rows, cols, 11);
      INFO(rows << " x " << cols << " " << name_of(dtype));
      Run<TestType> by_row(dtype, q, Along::row, rows);
      quantize<TestType>(exec(), by_row.job);
      CHECK(by_row.mistakes(ref::by_row) == 0);
      Run<TestType> by_column(dtype, q, Along::column, cols);
      quantize<TestType>(exec(), by_column.job);
      CHECK(by_column.mistakes(ref::by_column) == 0);
      Run<TestType> whole(dtype, q, Along::tensor, 1);
      quantize<TestType>(exec(), whole.job);
      CHECK(whole.mistakes(ref::by_tensor) == 0);
    }
  }
}

TEMPLATE_TEST_CASE("both gradients come from one tensor: by row of g·s_w, by column of g·s_x", "[kernels][quantize]",
                   Int<8>, E5M2) {
  for (const auto& [rows, cols] : shapes) {
    for (const DType dtype : {DType::f32, DType::bf16}) {
      INFO(rows << " x " << cols << " " << name_of(dtype));
      ref::QuantizeCase g = matrix(rows, cols, 12), with_weights = g, with_rows = g;
      with_weights.column_factor = noise(cols, 13, 0.1);
      with_rows.row_factor = noise(rows, 14, 0.1);
      Run<TestType> input(dtype, with_weights, Along::row, rows), weight(dtype, with_rows, Along::column, cols);
      weight.job.x = input.job.x;
      quantize_pair<TestType>(exec(), input.job, weight.job);
      CHECK(input.mistakes(ref::by_row) == 0);
      CHECK(weight.mistakes(ref::by_column) == 0);

      Run<TestType> input_alone(dtype, with_weights, Along::row, rows),
          weight_alone(dtype, with_rows, Along::column, cols);
      quantize<TestType>(exec(), input_alone.job);
      quantize<TestType>(exec(), weight_alone.job);
      CHECK(input.codes.integers() == input_alone.codes.integers());
      CHECK(weight.codes.integers() == weight_alone.codes.integers());
      CHECK(input.scale.floats() == input_alone.scale.floats());
      CHECK(weight.scale.floats() == weight_alone.scale.floats());
    }
  }
}

TEST_CASE("groups of rows have their own column scales and factors, empty groups and rows of none included",
          "[kernels][quantize]") {
  const std::vector<int> bounds{0, 0, 5, 5, 40, 41, 70, 70};  // 7 groups, of 77 rows the last 7 belong to none
  const int64_t rows = 77, cols = 300, groups = 7;
  ref::QuantizeCase g = matrix(rows, cols, 21), with_weights = g, with_rows = g;
  with_weights.column_factor = noise(groups * cols, 22);
  with_weights.groups = groups;
  with_rows.row_factor = noise(rows, 23);
  Run<Int<8>> input(DType::f32, with_weights, Along::row, rows),
      weight(DType::f32, with_rows, Along::column, groups * cols);
  weight.job.x = input.job.x;
  input.set_groups(bounds);
  weight.set_groups(bounds);
  quantize_pair<Int<8>>(exec(), input.job, weight.job);
  CHECK(input.mistakes(ref::by_row) == 0);
  CHECK(weight.mistakes(ref::by_group_column) == 0);
  const auto scales = weight.scale.floats();
  for (int64_t c = 0; c < cols; ++c) CHECK(scales[static_cast<std::size_t>(c)] == 1.0f);  // the first group is empty

  // shared by all groups, as the reference has it: every row counts, also those of no group
  Run<Int<8>> shared(DType::f32, with_rows, Along::column, cols);
  quantize<Int<8>>(exec(), shared.job);
  CHECK(shared.mistakes(ref::by_column) == 0);

  // equal groups: expert weights
  ref::QuantizeCase w = matrix(4 * 9, 130, 24);
  Run<Int<8>> experts(DType::f32, w, Along::column, 4 * 130);
  experts.set_groups({0, 9, 18, 27, 36});
  experts.job.offsets = {};
  experts.job.uniform_group = 9;
  quantize<Int<8>>(exec(), experts.job);
  CHECK(experts.mistakes(ref::by_group_column) == 0);
}

TEST_CASE("an outlier is found wherever it stands", "[kernels][quantize]") {
  const int64_t rows = 35, cols = 77;  // whole vectors of 8 and 16, and every remainder
  for (int64_t at = 0; at < cols; ++at) {
    for (const double outlier : {1e4, -1e4}) {
      const int64_t row = at % rows;
      ref::QuantizeCase q{rows, cols, noise(rows * cols, 31), {}, {}, {}, 1};
      q.x[static_cast<std::size_t>(row * cols + at)] = outlier;
      const float expected = static_cast<float>(1e4) / 127.0f;
      Run<Int<8>> by_row(DType::f32, q, Along::row, rows), by_column(DType::f32, q, Along::column, cols),
          whole(DType::f32, q, Along::tensor, 1);
      Run<Int<8>> pair_rows(DType::f32, q, Along::row, rows), pair_columns(DType::f32, q, Along::column, cols);
      pair_columns.job.x = pair_rows.job.x;
      quantize<Int<8>>(exec(), by_row.job);
      quantize<Int<8>>(exec(), by_column.job);
      quantize<Int<8>>(exec(), whole.job);
      quantize_pair<Int<8>>(exec(), pair_rows.job, pair_columns.job);
      const auto r = static_cast<std::size_t>(row), c = static_cast<std::size_t>(at);
      REQUIRE(by_row.scale.floats()[r] == expected);
      REQUIRE(by_column.scale.floats()[c] == expected);
      REQUIRE(whole.scale.floats()[0] == expected);
      REQUIRE(pair_rows.scale.floats()[r] == expected);
      REQUIRE(pair_columns.scale.floats()[c] == expected);
    }
  }
}

TEST_CASE("zero rows give scale 1 and zero codes", "[kernels][quantize]") {  // report D04
  ref::QuantizeCase q{2, 128, std::vector<double>(256, 0.0), {}, {}, {}, 1};
  for (std::size_t i = 128; i < 256; ++i) q.x[i] = 1.0;
  Run<E4M3fn> by_row(DType::f32, q, Along::row, 2);
  quantize<E4M3fn>(exec(), by_row.job);
  CHECK(by_row.scale.floats() == std::vector<float>{1.0f, 1.0f / 448.0f});
  const auto codes = by_row.codes.integers();
  for (std::size_t i = 0; i < 128; ++i) CHECK(codes[i] == 0);
  for (std::size_t i = 128; i < 256; ++i) CHECK(codes[i] == 0x7e);

  ref::QuantizeCase one{256, 256, std::vector<double>(65536, 0.0), {}, {}, {}, 1};
  one.x[0] = 3.0;
  for (const Along along : {Along::row, Along::column, Along::tensor}) {
    Run<Int<8>> run(DType::f32, one, along, along == Along::tensor ? 1 : 256);
    quantize<Int<8>>(exec(), run.job);
    const auto scale = run.scale.floats();
    const auto code = run.codes.integers();
    CHECK(scale[0] == 3.0f / 127.0f);
    if (scale.size() > 1) CHECK(scale[255] == 1.0f);
    CHECK(code[0] == 127);
    for (std::size_t i = 1; i < code.size(); ++i) REQUIRE(code[i] == 0);
  }
}

TEST_CASE("tiny gradients live, the smallest and the largest floats have finite scales that are not zero",
          "[kernels][quantize]") {
  const std::vector<double> sizes{1e-10, 1e-20, 1e-30, 1e-37, 1.4e-45, 3.4028234e38, 1e-44};
  ref::QuantizeCase q{static_cast<int64_t>(sizes.size()), 3, {}, {}, {}, {}, 1};
  for (const double s : sizes) q.x.insert(q.x.end(), {s, -s / 2, 0.0});
  Run<E5M2> run(DType::f32, q, Along::row, q.rows);
  quantize<E5M2>(exec(), run.job);
  const auto scale = run.scale.floats();
  const auto code = run.codes.integers();
  for (std::size_t r = 0; r < sizes.size(); ++r) {
    CHECK(std::isfinite(scale[r]));
    CHECK(scale[r] >= 0x1p-126f);
    if (sizes[r] >= 1e-30) {
      CHECK(code[r * 3] == 0x7b);  // the largest code, 57344
      CHECK(code[r * 3 + 1] == (0x77 | 0x80));
    }
    CHECK(code[r * 3 + 2] == 0);
  }
  CHECK(scale[0] == static_cast<float>(1e-10) / 57344.0f);

  Run<Int<8>> factor(DType::f32, q, Along::row,
                     q.rows);  // a factor above 1 must not make the scale of a huge row infinite
  factor.job.law.factor = 1e6f;
  quantize<Int<8>>(exec(), factor.job);
  for (const float s : factor.scale.floats()) CHECK(std::isfinite(s));
}

#ifndef KVANT_FPE
TEST_CASE("NaN and infinity poison their scale, others are untouched", "[kernels][quantize]") {
  for (const float bad : {std::nanf(""), -std::nanf(""), HUGE_VALF, -HUGE_VALF}) {
    for (const int64_t at : {0, 9, 40, 76}) {
      ref::QuantizeCase q{4, 77, noise(4 * 77, 41), {}, {}, {}, 1};
      q.x[static_cast<std::size_t>(2 * 77 + at)] = bad;
      Run<Int<8>> by_row(DType::f32, q, Along::row, 4), by_column(DType::f32, q, Along::column, 77),
          whole(DType::bf16, q, Along::tensor, 1);
      Run<Int<8>> fixed(DType::f32, q, Along::tensor, 1), clean(DType::f32, q, Along::tensor, 1);
      quantize<Int<8>>(exec(), by_row.job);
      quantize<Int<8>>(exec(), by_column.job);
      quantize<Int<8>>(exec(), whole.job);
      fixed.job.fixed_scale = 0.5f;
      quantize<Int<8>>(exec(), fixed.job);
      const auto rows = by_row.scale.floats(), columns = by_column.scale.floats();
      for (std::size_t r = 0; r < 4; ++r) CHECK(std::isnan(rows[r]) == (r == 2));
      for (std::size_t c = 0; c < 77; ++c) CHECK(std::isnan(columns[c]) == (c == static_cast<std::size_t>(at)));
      CHECK(std::isnan(whole.scale.floats()[0]));
      CHECK(std::isnan(fixed.scale.floats()[0]));
    }
  }
}
#endif

TEST_CASE("a fixed scale saturates symmetrically, with the law's limit", "[kernels][quantize]") {
  ref::QuantizeCase q{1, 6, {0.5, -0.5, 1e6, -1e6, 63.0, -64.4}, {}, {}, {}, 1};
  Run<Int<8>> run(DType::f32, q, Along::tensor, 1);
  run.job.fixed_scale = 0.5f;
  quantize<Int<8>>(exec(), run.job);
  CHECK(run.codes.integers() == std::vector<int>{1, -1, 127, -127, 126, -127});
  run.job.law.limit = 3.4e38f;  // the reference's: down to -128
  quantize<Int<8>>(exec(), run.job);
  CHECK(run.codes.integers() == std::vector<int>{1, -1, 127, -128, 126, -128});
  CHECK(run.scale.floats()[0] == 0.5f);
}

TEST_CASE("rows may be strided", "[kernels][quantize]") {
  const ref::QuantizeCase wide = matrix(9, 40, 51);
  ref::QuantizeCase narrow{9, 23, {}, {}, {}, {}, 1};
  for (int64_t r = 0; r < 9; ++r)
    for (int64_t c = 0; c < 23; ++c) narrow.x.push_back(wide.x[static_cast<std::size_t>(r * 40 + 5 + c)]);
  const DeviceBuffer x(DType::f32, {9, 40}, wide.x);
  for (const Along along : {Along::row, Along::column}) {
    Run<Int<8>> run(DType::f32, narrow, along, along == Along::row ? 9 : 23);
    run.job.x = x.view().slice_cols(5, 23);
    quantize<Int<8>>(exec(), run.job);
    CHECK(run.mistakes(along == Along::row ? ref::by_row : ref::by_column) == 0);
  }
}

TEST_CASE("an empty matrix is quantized at once, its column scales are 1", "[kernels][quantize]") {
  const ref::QuantizeCase q{0, 12, {}, {}, {}, {}, 1};
  Run<Int<8>> rows(DType::f32, q, Along::row, 0), columns(DType::f32, q, Along::column, 12);
  quantize<Int<8>>(exec(), rows.job);
  quantize<Int<8>>(exec(), columns.job);
  CHECK(columns.scale.floats() == std::vector<float>(12, 1.0f));
}

TEST_CASE("a job whose tensors do not fit is refused", "[kernels][quantize]") {
  const ref::QuantizeCase q = matrix(6, 8, 61);
  const auto refused = [&](auto&& change, Along along = Along::row, int64_t scales = 6) {
    Run<Int<8>> run(DType::f32, q, along, scales);
    change(run);
    CHECK_THROWS_AS(quantize<Int<8>>(exec(), run.job), Error);
  };
  refused([](auto& run) { run.job.x.dtype = DType::i32; });
  refused([](auto& run) { run.job.codes = run.job.codes.slice_rows(0, 3); });
  refused([](auto& run) { run.job.scale = run.job.scale.slice_rows(0, 5); });
  refused([](auto& run) { run.job.fixed_scale = 1.0f; });
  refused([](auto& run) { run.job.uniform_group = 4; });
  refused([](auto& run) { run.job.noise.row_ids = run.job.scale; });
  refused([](auto& run) { run.job.law.rule = ScaleRule::power_of_two_up; });
  refused([](auto& run) {
    run.job.x.dtype = DType::bf16;
    run.job.law.input_arithmetic = true;
  });
  refused([](auto& run) { run.job.magnitudes = {}; }, Along::column, 8);
  refused(
      [](auto& run) {
        run.job.multiplier = run.job.scale;
        run.job.multiplier_along = Along::column;
      },
      Along::column, 8);
  refused([](auto& run) { run.job.clip = run.job.scale.slice_rows(0, 2); });
}

TEST_CASE("a gradient is zero where the operand was clipped, bounds included", "[kernels][quantize]") {
  const DeviceBuffer x(DType::f32, {2, 3}, std::vector<float>{-4.5f, -4.0f, 0.0f, 4.0f, 4.25f, 9.0f});
  const DeviceBuffer src(DType::f32, {2, 3}, std::vector<float>{1, 2, 3, 4, 5, 6});
  DeviceBuffer dst(DType::f32, {2, 3}, std::vector<float>{10, 10, 10, 10, 10, 10});
  ClipMask mask;
  mask.reference = x;
  mask.low = -4;
  mask.high = 4;
  store_where_unclipped(exec(), mask, src, dst, true);
  CHECK(dst.floats() == std::vector<float>{10, 12, 13, 14, 10, 10});
  store_where_unclipped(exec(), mask, src, dst, false);
  CHECK(dst.floats() == std::vector<float>{0, 2, 3, 4, 0, 0});
  const DeviceBuffer by_row(DType::f32, {2}, std::vector<float>{4.5f, 4.0f});
  mask.bound = by_row;
  mask.bound_along = Along::row;
  store_where_unclipped(exec(), mask, src, dst, false);
  CHECK(dst.floats() == std::vector<float>{1, 2, 3, 4, 0, 0});
  const DeviceBuffer by_column(DType::f32, {3}, std::vector<float>{4.0f, 5.0f, 9.0f});
  mask.bound = by_column;
  mask.bound_along = Along::column;
  DeviceBuffer narrow(DType::bf16, {2, 3}, std::vector<float>{1, 1, 1, 1, 1, 1});
  store_where_unclipped(exec(), mask, src, narrow, true);
  CHECK(narrow.floats() == std::vector<float>{1, 3, 4, 5, 6, 7});
  CHECK_THROWS_AS(store_where_unclipped(exec(), mask, src.view().slice_rows(0, 1), dst, false), Error);
}
