#include "quant/quantized_matmul.hpp"

#include "base/error.hpp"
#include "numerics/float.hpp"
#include "numerics/int.hpp"
#include "support/quant_problem.hpp"

#include <catch2/catch_test_macros.hpp>
#include <catch2/generators/catch_generators.hpp>
#include <catch2/matchers/catch_matchers_string.hpp>

#include <cmath>

namespace {

using namespace kvant;
using kvant::test::DeviceBuffer;
using kvant::test::integer_values;
using kvant::test::QuantProblem;
using kvant::test::types;
using kvant::test::uniform_values;
namespace ref = kvant::reference;

template <class F>
ref::OperandLaw law(float bound = F::max_finite) {
  return {[](float v) { return static_cast<double>(F::decode(F::encode(v))); }, bound, 1.0f, 0.0f, F::max_finite};
}

ref::OperandLaw law_of(const std::string& qtype) {
  if (qtype == "int8") return law<Int<8>>();
  return qtype == "float8_e4m3fn" ? law<E4M3fn>() : law<E5M2>();
}

ref::MatmulProblem reference_of(const QuantProblem& p, const quant::Rule& rule, const std::vector<int>& offsets = {}) {
  ref::MatmulProblem r;
  r.rows = p.rows(), r.k = p.site.k, r.n = p.site.n, r.groups = p.group_count();
  r.offsets.assign(offsets.begin(), offsets.end());
  r.x = p.x().floats(), r.w = p.weight().floats(), r.g = p.g().floats();
  r.act = law_of(rule.act_qtype), r.weight = law_of(rule.weight_qtype);
  r.grad_input = r.grad_weight = law_of(rule.bwd_qtype);
  return r;
}

/// Largest error in units of Σ|a||b|, plus a half unit in the last place of the result's type.
double error(const std::vector<float>& got, const std::vector<double>& expected, const std::vector<double>& size,
             double rounding) {
  REQUIRE(got.size() == expected.size());
  double worst = 0;
  for (std::size_t i = 0; i < got.size(); ++i) {
    const double slack = rounding * std::fabs(expected[i]);
    const double off = std::fmax(0.0, std::fabs(got[i] - expected[i]) - slack);
    if (off > 0) worst = std::fmax(worst, off / std::fmax(size[i], 1e-300));
    if (std::isnan(got[i])) return HUGE_VAL;
  }
  return worst;
}

void check_all(QuantProblem& p, const ref::MatmulProblem& r, double rounding) {
  p.forward();
  p.backward();
  const ref::MatmulResult e = ref::quantized_matmul(r);
  CHECK(error(p.y.floats(), e.y, e.y_size, rounding) < 5e-7);
  CHECK(error(p.dx.floats(), e.dx, e.dx_size, rounding) < 5e-7);
  CHECK(error(p.dw(), e.dw, e.dw_size, 0) < 5e-7);
}

const std::vector<std::string> formats[] = {
    {"int8", "int8", "int8"}, {"float8_e4m3fn", "float8_e4m3fn", "float8_e5m2"}, {"int8", "int8", "float8_e5m2"}};

}  // namespace

TEST_CASE("a dense product, forward and both arms, is the reference's", "[quant]") {
  for (const auto& f : formats) {
    for (const DType dtype : {DType::f32, DType::bf16}) {
      for (const auto& [rows, k, n] :
           {std::tuple<int64_t, int64_t, int64_t>{17, 23, 9}, {64, 48, 80}, {1, 5, 3}, {33, 130, 65}}) {
        INFO(f[0] << " " << f[2] << " " << name_of(dtype) << " " << rows << " " << k << " " << n);
        const auto rule = types(f[0], f[1], f[2]);
        QuantProblem p(rows, k, n, rule, {}, dtype);
        p.set(uniform_values(rows * k, 1), uniform_values(k * n, 2, 0.3f), uniform_values(rows * n, 3, 1e-4f));
        check_all(p, reference_of(p, rule), dtype == DType::bf16 ? 0x1p-8 : 0x1p-23);
      }
    }
  }
}

TEST_CASE("a grouped product has scales for each expert; experts without rows and rows without expert are legal",
          "[quant]") {  // report D11
  const std::vector<int> offsets{0, 0, 11, 12, 40, 40};
  const int64_t rows = 45, k = 24, n = 37, groups = 5;
  for (const auto& f : formats) {
    INFO(f[0] << " " << f[2]);
    const auto rule = types(f[0], f[1], f[2]);
    QuantProblem p(rows, k, n, rule, offsets);
    std::vector<float> w = uniform_values(groups * k * n, 5);
    for (std::size_t i = 0; i < w.size(); ++i)
      w[i] *= std::ldexp(1.0f, static_cast<int>(i / static_cast<std::size_t>(k * n)) * 3);  // experts differ in size
    p.set(uniform_values(rows * k, 4), w, uniform_values(rows * n, 6, 1e-6f));
    check_all(p, reference_of(p, rule, offsets), 0x1p-23);
    const auto dw = p.dw();
    for (int64_t i = 0; i < k * n; ++i) REQUIRE(dw[static_cast<std::size_t>(i)] == 0.0f);  // expert 0 has no row
  }
}

TEST_CASE("experts share column scales under qwix_compat, as the reference's do", "[quant]") {  // reference trap 2
  const std::vector<int> offsets{0, 20, 29};
  const auto rule = types("float8_e4m3fn", "float8_e4m3fn", "float8_e5m2");
  QuantProblem p(29, 16, 10, rule, offsets, DType::f32, nullptr, "xla");
  std::vector<float> w = uniform_values(2 * 160, 8);
  for (std::size_t i = 160; i < 320; ++i) w[i] *= 100.0f;
  p.set(uniform_values(29 * 16, 7), w, uniform_values(29 * 10, 9));
  ref::MatmulProblem r = reference_of(p, rule, offsets);
  r.shared_columns = true;
  check_all(p, r, 1e-6);
}

TEST_CASE("all experts empty, and no rows at all", "[quant]") {  // report D11
  const auto rule = types("int8", "int8", "int8");
  QuantProblem empty(6, 8, 4, rule, {0, 0, 0, 0});
  empty.set(uniform_values(48, 1), uniform_values(96, 2), uniform_values(24, 3));
  empty.forward();
  empty.backward();
  for (const float v : empty.y.floats()) CHECK(v == 0.0f);
  for (const float v : empty.dx.floats()) CHECK(v == 0.0f);
  for (const float v : empty.dw()) CHECK(v == 0.0f);
  for (const bool grouped : {false, true}) {
    QuantProblem none(0, 8, 4, rule, grouped ? std::vector<int>{0, 0} : std::vector<int>{});
    none.set({}, uniform_values(32, 2), {});
    none.forward();
    none.backward();
    for (const float v : none.dw()) CHECK(v == 0.0f);
  }
}

namespace {

/// a of m × l and b of l × n, or either transposed, in double precision and rounded to the type of the result.
std::vector<float> exact_product(int64_t m, int64_t l, int64_t n, const std::vector<float>& a, bool a_transposed,
                                 const std::vector<float>& b, bool b_transposed, DType type) {
  std::vector<double> c(static_cast<std::size_t>(m * n));
  for (int64_t i = 0; i < m; ++i)
    for (int64_t j = 0; j < n; ++j)
      for (int64_t t = 0; t < l; ++t)
        c[static_cast<std::size_t>(i * n + j)] += static_cast<double>(a[static_cast<std::size_t>(a_transposed ? t * m + i : i * l + t)]) *
                                                  b[static_cast<std::size_t>(b_transposed ? j * l + t : t * n + j)];
  return DeviceBuffer(type, {m, n}, c).floats();
}

}  // namespace

TEST_CASE("integers are multiplied exactly", "[quant]") {
  // |x| <= 15 with one largest code in every row and column makes every scale 1: codes are the values, sums are exact.
  const int64_t rows = 40, k = 33, n = 21;
  const auto [qtype, largest] = GENERATE(table<std::string, float>({{"int5", 15.0f}, {"int6", 31.0f}, {"int7", 63.0f}, {"int8", 127.0f}}));
  const DType dtype = GENERATE(DType::f32, DType::bf16);
  INFO(qtype << " " << name_of(dtype));
  QuantProblem p(rows, k, n, types(qtype, qtype, qtype), {}, dtype);
  std::vector<float> x = integer_values(rows * k, 1, 15), w = integer_values(k * n, 2, 15),
                     g = integer_values(rows * n, 3, 15);
  for (int64_t r = 0; r < rows; ++r) x[static_cast<std::size_t>(r * k + r % k)] = r % 2 ? largest : -largest;
  for (int64_t j = 0; j < n; ++j) w[static_cast<std::size_t>(j % k * n + j)] = largest;
  for (int64_t r = 0; r < rows; ++r) g[static_cast<std::size_t>(r * n + r % n)] = -largest;
  p.set(x, w, g);
  p.forward();
  p.backward();
  CHECK(p.y.floats() == exact_product(rows, k, n, x, false, w, false, dtype));
  CHECK(p.dx.floats() == exact_product(rows, n, k, g, false, w, true, dtype));
  CHECK(p.dw() == exact_product(k, rows, n, x, true, g, false, DType::f32));
}

TEST_CASE("integers with zero points are multiplied exactly", "[quant]") {
  // -15 and the other end of the range in every row and column: as many steps of 1 as there are codes, zero at code 15
  // (of signed codes: 15 above the lowest).
  const int64_t rows = 40, k = 33, n = 21;
  const auto [qtype, levels] = GENERATE(table<std::string, float>(
      {{"uint5", 31.0f}, {"uint6", 63.0f}, {"uint7", 127.0f}, {"uint8", 255.0f}, {"int5", 31.0f}, {"int6", 63.0f}, {"int7", 127.0f}, {"int8", 255.0f}}));
  const DType dtype = GENERATE(DType::f32, DType::bf16);
  INFO(qtype << " " << name_of(dtype));
  auto rule = types(qtype, qtype, "");
  rule.weight_calibration = rule.act_calibration = "minmax";
  QuantProblem p(rows, k, n, rule, {}, dtype);
  std::vector<float> x = integer_values(rows * k, 1, 15), w = integer_values(k * n, 2, 15);
  for (int64_t r = 0; r < rows; ++r) {
    x[static_cast<std::size_t>(r * k + r % k)] = -15;
    x[static_cast<std::size_t>(r * k + (r + 7) % k)] = levels - 15;
  }
  for (int64_t j = 0; j < n; ++j) {
    w[static_cast<std::size_t>(j % k * n + j)] = levels - 15;
    w[static_cast<std::size_t>((j + 9) % k * n + j)] = -15;
  }
  p.set(x, w, uniform_values(rows * n, 3));
  p.forward();
  CHECK(p.y.floats() == exact_product(rows, k, n, x, false, w, false, dtype));
}

TEST_CASE("an outlier takes the scale of its row and column and of no other, wherever it stands", "[quant]") {
  // The values are integers below 16 and the outlier is 127 · 64, so the scale of its row or column is 64 and every other 1:
  // where the outlier is in neither operand's part of a sum, the sum is exact.
  const int64_t rows = 5, k = 31, n = 37;
  const auto rule = types("int8", "int8", "int8");
  std::vector<float> x = integer_values(rows * k, 1, 15), w = integer_values(k * n, 2, 15), g = integer_values(rows * n, 3, 15);
  for (int64_t r = 0; r < rows; ++r) x[static_cast<std::size_t>(r * k)] = 127;
  for (int64_t j = 0; j < n; ++j) w[static_cast<std::size_t>(j)] = 127;
  for (int64_t place = 0; place < k; ++place) {
    const int64_t row = place % rows, column = place % n;
    auto loud_x = x, loud_w = w;
    loud_x[static_cast<std::size_t>(row * k + place)] = 127 * 64;
    loud_w[static_cast<std::size_t>(place * n + column)] = -127 * 64;
    QuantProblem p(rows, k, n, rule);
    p.set(loud_x, loud_w, g);
    p.forward();
    const auto y = p.y.floats(), quiet = exact_product(rows, k, n, x, false, w, false, DType::f32);
    // What the loud row and column hold at codes of 64: multiples of 64, nearest.
    const auto coarse = [](float v) { return std::nearbyint(v / 64.0f) * 64.0f; };
    for (int64_t i = 0; i < rows; ++i)
      for (int64_t j = 0; j < n; ++j) {
        double sum = 0;
        for (int64_t t = 0; t < k; ++t) {
          const float a = loud_x[static_cast<std::size_t>(i * k + t)], b = loud_w[static_cast<std::size_t>(t * n + j)];
          sum += static_cast<double>(i == row ? coarse(a) : a) * (j == column ? coarse(b) : b);
        }
        REQUIRE(static_cast<double>(y[static_cast<std::size_t>(i * n + j)]) == sum);
        if (i != row && j != column) REQUIRE(y[static_cast<std::size_t>(i * n + j)] == quiet[static_cast<std::size_t>(i * n + j)]);
      }
  }
}

TEST_CASE("the two arms quantize two different tensors, with the residual's scale folded in first",
          "[quant]") {  // reference trap 1
  // Weight columns and token rows of very different size: a gradient that is quantized once, before the scales are
  // folded in, loses the small ones, which the folded ones keep.
  const int64_t rows = 8, k = 16, n = 16;
  const auto rule = types("int8", "int8", "int8");
  QuantProblem p(rows, k, n, rule);
  std::vector<float> x = uniform_values(rows * k, 1), w = uniform_values(k * n, 2), g = uniform_values(rows * n, 3);
  for (int64_t i = 0; i < k * n; ++i) w[static_cast<std::size_t>(i)] *= std::ldexp(1.0f, static_cast<int>(i % n));
  for (int64_t i = 0; i < rows * k; ++i)
    x[static_cast<std::size_t>(i)] *= std::ldexp(1.0f, static_cast<int>(i / k) * 2);
  for (int64_t i = 0; i < rows * n; ++i)
    g[static_cast<std::size_t>(i)] *= std::ldexp(1.0f, -static_cast<int>(i % n) - 2 * static_cast<int>(i / n));
  p.set(x, w, g);
  check_all(p, reference_of(p, rule), 0x1p-23);
  double worst = 0;  // against the unquantized gradient
  const auto dx = p.dx.floats();
  for (int64_t r = 0; r < rows; ++r) {
    for (int64_t i = 0; i < k; ++i) {
      double exact = 0, size = 0;
      for (int64_t j = 0; j < n; ++j) {
        const double term =
            static_cast<double>(g[static_cast<std::size_t>(r * n + j)]) * w[static_cast<std::size_t>(i * n + j)];
        exact += term;
        size += std::fabs(term);
      }
      worst = std::fmax(worst, std::fabs(dx[static_cast<std::size_t>(r * k + i)] - exact) / size);
    }
  }
  CHECK(worst < 0.02);
}

TEST_CASE("gradients of 1e-10 and 1e-20 live", "[quant]") {  // reference trap 6
  for (const float size : {1e-10f, 1e-20f}) {
    const auto rule = types("float8_e4m3fn", "float8_e4m3fn", "float8_e5m2");
    QuantProblem p(12, 20, 14, rule);
    p.set(uniform_values(240, 1), uniform_values(280, 2, 0.05f), uniform_values(168, 3, size));
    check_all(p, reference_of(p, rule), 0x1p-23);
    double sum = 0;
    for (const float v : p.dx.floats()) sum += std::fabs(v);
    CHECK(sum > 10 * size * 0.01);
  }
}

TEST_CASE("values beyond the largest code saturate, they never become NaN", "[quant]") {  // reference trap 7
  auto rule = types("float8_e4m3fn", "float8_e4m3fn", "float8_e5m2");
  rule.act_calibration = "fixed,448";  // scale 1; the weight's is 1 too, so the products are exact
  QuantProblem p(3, 4, 2, rule);
  p.set({1e6f, 0, 0, 0, -1e6f, 0, 0, 0, 0.5f, 0, 0, 0}, {448, 448, 0, 0, 0, 0, 0, 0}, {1, 1, 1, 1, 1, 1});
  p.forward();
  CHECK(p.y.floats() == std::vector<float>{200704, 200704, -200704, -200704, 224, 224});
}

TEST_CASE("a constant range masks the gradients of a dense product, not of an expert's",
          "[quant]") {  // reference trap 8
  for (const bool grouped : {false, true}) {
    const std::vector<int> offsets = grouped ? std::vector<int>{0, 30} : std::vector<int>{};
    auto rule = types("float8_e4m3fn", "float8_e4m3fn", "float8_e5m2");
    rule.weight_calibration = "fixed,-1,1";
    rule.act_calibration = "fixed,-4,4";
    QuantProblem p(30, 12, 18, rule, offsets);
    p.set(uniform_values(360, 1, 6.0f), uniform_values(216, 2, 1.5f), uniform_values(540, 3));
    ref::MatmulProblem r = reference_of(p, rule, offsets);
    r.act.fixed = 4;
    r.weight.fixed = 1;
    r.masked = !grouped;
    check_all(p, r, 0x1p-23);
  }
}

TEST_CASE("a factor below 1 clips by row and by column and masks there", "[quant]") {
  auto rule = types("int8", "int8", "int8");
  rule.act_calibration = rule.weight_calibration = "absmax,0.5";
  QuantProblem p(5, 7, 6, rule);
  p.set(uniform_values(35, 1), uniform_values(42, 2), uniform_values(30, 3));
  p.forward();
  p.backward();
  const auto x = p.x().floats(), w = p.weight().floats(), dx = p.dx.floats(), dw = p.dw();
  for (std::size_t r = 0; r < 5; ++r) {
    float m = 0;
    for (std::size_t i = 0; i < 7; ++i) m = std::fmax(m, std::fabs(x[r * 7 + i]));
    for (std::size_t i = 0; i < 7; ++i) CHECK((dx[r * 7 + i] == 0.0f) == (std::fabs(x[r * 7 + i]) > 0.5f * m));
  }
  for (std::size_t j = 0; j < 6; ++j) {
    float m = 0;
    for (std::size_t i = 0; i < 7; ++i) m = std::fmax(m, std::fabs(w[i * 6 + j]));
    for (std::size_t i = 0; i < 7; ++i) CHECK((dw[i * 6 + j] == 0.0f) == (std::fabs(w[i * 6 + j]) > 0.5f * m));
  }
}

TEST_CASE("results accumulate where the caller says so, and dx may be left out", "[quant]") {
  for (const char* act : {"absmax", "fixed,2"}) {
    auto rule = types("int8", "int8", "int8");
    rule.act_calibration = act;
    QuantProblem once(9, 8, 7, rule), twice(9, 8, 7, rule);
    for (QuantProblem* p : {&once, &twice}) p->set(uniform_values(72, 1), uniform_values(56, 2), uniform_values(63, 3));
    once.forward();
    once.backward();
    twice.y.put(std::vector<float>(63, 1.0f));
    twice.dx.put(std::vector<float>(72, 2.0f));
    twice.forward(Write::accumulate);
    twice.backward(Write::accumulate);
    twice.backward(Write::accumulate, false);
    const auto y = once.y.floats(), dx = once.dx.floats(), dw = once.dw(), y2 = twice.y.floats(),
               dx2 = twice.dx.floats(), dw2 = twice.dw();
    for (std::size_t i = 0; i < y.size(); ++i) CHECK(y2[i] == 1.0f + y[i]);
    for (std::size_t i = 0; i < dx.size(); ++i) CHECK(dx2[i] == 2.0f + dx[i]);
    for (std::size_t i = 0; i < dw.size(); ++i) CHECK(dw2[i] == dw[i] + dw[i]);
  }
}

TEST_CASE("the weight is quantized once per value: micro-batches agree bit for bit, a new value is seen at once",
          "[quant]") {  // report D08
  const auto rule = types("int8", "int8", "int8");
  QuantProblem p(16, 12, 10, rule);
  p.set(uniform_values(192, 1), uniform_values(120, 2), uniform_values(160, 3));
  p.forward();
  const auto first = p.y.floats();
  const auto growth = p.state.growth_count();
  const auto used = p.state.used();
  for (int micro_batch = 0; micro_batch < 3; ++micro_batch) {
    p.y.poison();
    p.operand = Operand(p.x().view());
    p.forward();
    CHECK(p.y.floats() == first);
  }
  p.set_weight(uniform_values(120, 7));  // an optimizer step, or loading
  p.forward();
  CHECK(p.y.floats() != first);
  QuantProblem fresh(16, 12, 10, rule);
  fresh.set(uniform_values(192, 1), uniform_values(120, 7), uniform_values(160, 3));
  fresh.forward();
  CHECK(p.y.floats() == fresh.y.floats());
  CHECK(p.state.growth_count() == growth);
  CHECK(p.state.used() == used);
}

TEST_CASE("an evaluation before the first step leaves out what backward needs, and the step then has it", "[quant]") {
  const auto rule = types("int8", "int8", "int8");
  QuantProblem p(16, 12, 10, rule), straight(16, 12, 10, rule);
  for (QuantProblem* q : {&p, &straight})
    q->set(uniform_values(192, 1), uniform_values(120, 2), uniform_values(160, 3));
  p.forward(Write::overwrite, Phase::eval);
  const auto evaluated = p.y.floats();
  const auto after_eval = p.state.used();
  p.forward();
  p.backward();
  straight.forward();
  straight.backward();
  CHECK(p.y.floats() == evaluated);
  CHECK(p.state.used() > after_eval);
  CHECK(p.dx.floats() == straight.dx.floats());
  CHECK(p.dw() == straight.dw());
}

TEST_CASE("sites with one activation recipe share a payload", "[quant]") {
  const auto rule = types("int8", "int8", "int8");
  QuantProblem a(16, 12, 10, rule), b(16, 12, 14, rule);
  a.set(uniform_values(192, 1), uniform_values(120, 2), uniform_values(160, 3));
  b.set(uniform_values(192, 1), uniform_values(168, 4), uniform_values(224, 5));
  a.forward();
  b.forward();
  const auto alone = b.y.floats();
  const auto used = a.arena.used();
  StepContext ctx = a.context();
  b.site.op_ref().prepare(ctx, a.operand, {});  // same key: nothing is made
  CHECK(a.arena.used() == used);
  StepContext other = b.context();
  b.y.poison();
  b.site.op_ref().forward(other, a.operand, {}, b.y, Write::overwrite);
  b.exec.space.fence();
  CHECK(b.y.floats() == alone);
  const Operand unprepared(a.x().view());
  CHECK_THROWS_WITH(b.site.op_ref().forward(other, unprepared, {}, b.y, Write::overwrite),
                    Catch::Matchers::ContainsSubstring("not prepared"));
}

TEST_CASE("the arithmetic of an arm is integer only where both operands are", "[quant]") {
  QuantProblem integer(2, 4, 4, types("int8", "int8", "int8")), mixed(2, 4, 4, types("int8", "int8", "float8_e5m2"));
  for (const Arm arm : {Arm::forward, Arm::dgrad, Arm::wgrad}) CHECK(integer.site.bound->arithmetic(arm) == DType::i8);
  CHECK(mixed.site.bound->arithmetic(Arm::forward) == DType::i8);
  CHECK(mixed.site.bound->arithmetic(Arm::dgrad) == DType::f32);
  CHECK(mixed.site.bound->arithmetic(Arm::wgrad) == DType::f32);
}

#ifndef KVANT_FPE
TEST_CASE("a NaN in any operand reaches the results", "[quant]") {
  const float nan = std::nanf("");
  const auto rule = types("int8", "int8", "int8");
  for (const int which : {0, 1, 2}) {
    QuantProblem p(6, 8, 5, rule);
    auto x = uniform_values(48, 1), w = uniform_values(40, 2), g = uniform_values(30, 3);
    (which == 0 ? x : which == 1 ? w : g)[11] = nan;
    p.set(x, w, g);
    p.forward();
    p.backward();
    const auto any = [](const std::vector<float>& v) {
      for (const float f : v)
        if (std::isnan(f)) return true;
      return false;
    };
    CHECK(any(p.y.floats()) == (which != 2));
    CHECK(any(p.dx.floats()) == (which != 0));
    CHECK(any(p.dw()) == (which != 1));
  }
}
#endif
