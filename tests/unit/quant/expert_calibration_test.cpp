// Calibrations that search, of the gradients of experts: each column of each expert has a range of its own, found among the expert's own
// rows, however many they are. The twin looks at one column after the other, in double precision.
#include "base/error.hpp"
#include "numerics/formats.hpp"
#include "quant/operand_quantizer.hpp"
#include "reference/clipping_search.hpp"
#include "support/quant_problem.hpp"

#include <catch2/catch_test_macros.hpp>
#include <catch2/matchers/catch_matchers_string.hpp>

#include <algorithm>
#include <cmath>

using namespace kvant;
using namespace kvant::quant;
using Catch::Matchers::ContainsSubstring;
using kvant::test::DeviceBuffer;
using kvant::test::QuantProblem;
using kvant::test::types;
using kvant::test::uniform_values;

namespace {

std::size_t at(int64_t i) { return static_cast<std::size_t>(i); }

/// Many small numbers and a tail.
std::vector<float> tailed(int64_t count, uint64_t seed) {
  auto x = uniform_values(count, seed);
  for (float& v : x) v = v * v * v;
  return x;
}

/// The range that a method finds for these values; `mean`: of their squares.
double range_of(const std::string& method, const std::vector<double>& values, double bound) {
  std::vector<double> size;
  double mean = 0;
  for (const double v : values) {
    size.push_back(std::fabs(v));
    mean += v * v / static_cast<double>(values.size());
  }
  std::sort(size.begin(), size.end());
  if (method == "rms,2.5") return 2.5 * std::sqrt(mean);
  if (method == "percentile,90") return size[at(static_cast<int64_t>(std::ceil(0.9 * static_cast<double>(size.size())))) - 1];
  double best = 0, least = HUGE_VAL;  // mse,16,0.5
  for (int k = 0; k < 16; ++k) {
    const double range = reference::candidate_range(size.back(), k, 16, 0.5), error = reference::squared_error<Int<8>>(values, range, bound);
    if (error < least) best = range, least = error;
  }
  return best;
}

/// A search that reads no counts.
class Blind final : public RangeSearch {
 public:
  void find(const Exec&, const RangeJob&) const override { FAIL("a search without counts was asked"); }
};

OperandRecipe recipe_of(const std::string& method) {
  OperandRecipe recipe;
  recipe.qtype = "int8";
  recipe.codec = builtin_codec("int8");
  recipe.calibration = parse_calibration(method);
  recipe.granularity = Granularity::per_expert_column;
  recipe.law.bound = recipe.law.limit = recipe.codec->bound(false);
  return recipe;
}

struct Result {
  std::vector<float> scale;
  std::vector<int> codes;
};
Result quantized(const OperandRecipe& recipe, const std::vector<float>& x, int64_t cols, const std::vector<int>& offsets,
                 const std::vector<float>& row_factors = {}, DType type = DType::f32) {
  Arena arena("expert test");
  const auto rows = static_cast<int64_t>(x.size()) / cols, groups = static_cast<int64_t>(offsets.size()) - 1;
  const DeviceBuffer in(type, {rows, cols}, x), codes(DType::i8, {rows, cols}), scale(DType::f32, {groups, cols}), first(DType::i32, {groups + 1}, offsets);
  const DeviceBuffer factors(DType::f32, {rows}, row_factors);
  QuantizeJob job;
  job.x = in;
  job.codes = codes;
  job.scale = scale;
  job.scale_along = Along::column;
  job.offsets = first;
  job.law = recipe.law;
  if (!row_factors.empty()) {
    job.multiplier = factors;
    job.multiplier_along = Along::row;
  }
  const auto used = arena.used();
  quantize_operand(Exec{}, arena, recipe, job);
  Kokkos::fence();
  CHECK(arena.used() == used);
  return {scale.floats(), codes.integers()};
}

}  // namespace

TEST_CASE("each column of each expert has the range of its own rows", "[quant][experts]") {
  struct Layout {
    std::vector<int> offsets;
    int64_t rows, cols;
  };
  // Experts without rows, of one row, rows of no expert; more rows than are summed at once.
  for (const Layout& l : {Layout{{0, 0, 1, 14, 60, 60}, 63, 7}, Layout{{0, 4100, 4100, 9000}, 9000, 2}}) {
    const auto x = tailed(l.rows * l.cols, 3);
    std::vector<float> factors(at(l.rows));
    for (std::size_t r = 0; r < factors.size(); ++r) factors[r] = 0.5f + static_cast<float>(r % 5);
    for (const bool multiplies : {false, true}) {
      for (const char* method : {"rms,2.5", "percentile,90", "mse,16,0.5"}) {
        INFO(method << " " << l.rows << (multiplies ? " multiplied" : ""));
        const Result q = quantized(recipe_of(method), x, l.cols, l.offsets, multiplies ? factors : std::vector<float>{});
        for (std::size_t e = 0; e + 1 < l.offsets.size(); ++e)
          for (int64_t c = 0; c < l.cols; ++c) {
            std::vector<double> values;
            for (int64_t r = l.offsets[e]; r < l.offsets[e + 1]; ++r)
              values.push_back(static_cast<double>(x[at(r * l.cols + c)] * (multiplies ? factors[at(r)] : 1.0f)));
            const float scale = q.scale[e * at(l.cols) + at(c)];
            if (values.empty()) {
              CHECK(scale == 1.0f);
              continue;
            }
            const double range = range_of(method, values, 127);
            if (method[0] == 'm')  // two candidates may be equally good but for the last bits of their sums
              CHECK(reference::squared_error<Int<8>>(values, static_cast<double>(scale) * 127, 127) <=
                    reference::squared_error<Int<8>>(values, range, 127) * (1 + 1e-5));
            else
              CHECK(std::fabs(static_cast<double>(scale) / (range / 127) - 1) < 4e-7);
            for (std::size_t i = 0; i < values.size(); ++i) {
              const double ratio = std::clamp(values[i] / static_cast<double>(scale), -127.0, 127.0);
              REQUIRE(std::fabs(q.codes[(at(l.offsets[e]) + i) * at(l.cols) + at(c)] - ratio) <= 0.5001);
            }
          }
        for (std::size_t i = at(l.offsets.back() * l.cols); i < x.size(); ++i) CHECK(q.codes[i] == 0);
      }
    }
  }
}

TEST_CASE("a gradient in bfloat16 is searched as it is", "[quant][experts]") {
  const auto x = tailed(40 * 6, 5);
  std::vector<float> stored;
  for (const float v : x) stored.push_back(to_float(to_bf16(v)));
  const Result narrow = quantized(recipe_of("percentile,90"), x, 6, {0, 13, 40}, {}, DType::bf16),
               exact = quantized(recipe_of("percentile,90"), stored, 6, {0, 13, 40});
  CHECK(narrow.scale == exact.scale);
  CHECK(narrow.codes == exact.codes);
}

#ifndef KVANT_FPE
TEST_CASE("no search of an expert's rows hides a NaN or an infinity", "[quant][experts]") {
  for (const double bad : {std::nan(""), HUGE_VAL, -HUGE_VAL})
    for (const char* method : {"rms,2.5", "percentile,90", "mse,16,0.5"}) {
      INFO(method);
      auto x = tailed(20 * 3, 4);
      x[10 * 3 + 1] = static_cast<float>(bad);
      const Result q = quantized(recipe_of(method), x, 3, {0, 8, 15, 20});
      for (std::size_t i = 0; i < 9; ++i) CHECK(std::isnan(q.scale[i]) == (i == 4));
    }
}
#endif

TEST_CASE("both gradients of experts are products of codes with the ranges that were found", "[quant][experts]") {
  const std::vector<int> offsets{0, 0, 17, 18, 64};
  const int64_t rows = 66, k = 12, n = 9, groups = 4;
  for (const char* method : {"percentile,90", "rms,2.5", "mse,16,0.5"}) {
    INFO(method);
    auto rule = types("int8", "int8", "int8");
    rule.bwd_calibration = method;  // of rows for dx, of columns of each expert for dw
    QuantProblem p(rows, k, n, rule, offsets);
    CHECK(not_offered(*p.recipe, true).empty());
    p.set(uniform_values(rows * k, 1), uniform_values(groups * k * n, 2), tailed(rows * n, 3));
    p.forward();
    p.backward();
    const auto x = p.x().floats(), g = p.g().floats(), dw = p.dw();
    std::vector<float> scale(at(rows)), scaled = g;
    for (int64_t r = 0; r < rows; ++r) {
      float m = 0;
      for (int64_t i = 0; i < k; ++i) m = std::fmax(m, std::fabs(x[at(r * k + i)]));
      scale[at(r)] = m / 127;
      for (int64_t j = 0; j < n; ++j) scaled[at(r * n + j)] *= scale[at(r)];
    }
    const Result q = quantized(recipe_of(method), scaled, n, offsets);  // what the test above looks at
    double worst = 0;
    for (std::size_t e = 0; e + 1 < offsets.size(); ++e)
      for (int64_t i = 0; i < k; ++i)
        for (int64_t j = 0; j < n; ++j) {
          double sum = 0, size = 1e-300;
          for (int64_t r = offsets[e]; r < offsets[e + 1]; ++r) {
            const double code = std::nearbyint(static_cast<double>(x[at(r * k + i)] * (1.0f / scale[at(r)])));
            const double term = code * q.codes[at(r * n + j)] * static_cast<double>(q.scale[e * at(n) + at(j)]);
            sum += term, size += std::fabs(term);
          }
          worst = std::fmax(worst, std::fabs(static_cast<double>(dw[(e * at(k) + at(i)) * at(n) + at(j)]) - sum) / size);
        }
    CHECK(worst < 5e-7);

    const auto w = p.weight().floats(), dx = p.dx.floats();
    worst = 0;
    for (std::size_t e = 0; e + 1 < offsets.size(); ++e) {
      std::vector<float> column(at(n));
      for (int64_t i = 0; i < k * n; ++i) column[at(i % n)] = std::fmax(column[at(i % n)], std::fabs(w[e * at(k * n) + at(i)]));
      for (float& s : column) s /= 127;
      for (int64_t r = offsets[e]; r < offsets[e + 1]; ++r) {
        std::vector<float> row;
        for (int64_t j = 0; j < n; ++j) row.push_back(g[at(r * n + j)] * column[at(j)]);
        const Result one = quantized(recipe_of(method), row, 1, {0, static_cast<int>(n)});  // a row as one column
        for (int64_t i = 0; i < k; ++i) {
          double sum = 0, size = 1e-300;
          for (int64_t j = 0; j < n; ++j) {
            const double code = std::nearbyint(static_cast<double>(w[(e * at(k) + at(i)) * at(n) + at(j)] * (1.0f / column[at(j)])));
            const double term = one.codes[at(j)] * code * static_cast<double>(one.scale[0]);
            sum += term, size += std::fabs(term);
          }
          worst = std::fmax(worst, std::fabs(static_cast<double>(dx[at(r * k + i)]) - sum) / size);
        }
      }
    }
    CHECK(worst < 5e-7);
    for (std::size_t i = at(offsets.back() * k); i < dx.size(); ++i) CHECK(dx[i] == 0.0f);
  }
}

TEST_CASE("a search that reads no counts is refused for the gradients of experts", "[quant][experts]") {
  OperandRecipe blind = recipe_of("absmax");
  blind.calibration.search = std::make_shared<Blind>();
  CHECK_THROWS_WITH(quantized(blind, tailed(24, 1), 4, {0, 1, 6}), ContainsSubstring("absmax or fixed, or a search that takes counts"));
  auto rule = types("int8", "int8", "int8");
  Recipe recipe = *QuantProblem(8, 16, 16, rule, {0, 3, 8}).recipe;
  CHECK(not_offered(recipe, true).empty());
  recipe.grad_weight.calibration.search = blind.calibration.search;
  REQUIRE(not_offered(recipe, true).size() == 1);
  CHECK_THAT(not_offered(recipe, true).front(), ContainsSubstring("a calibration whose search takes counts"));
  CHECK(not_offered(recipe, false).empty());
}
