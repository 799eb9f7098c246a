// forward_transform: both operands of y = x·w are transformed along the inputs before they are quantized, and the backward arms read the
// operands themselves. The twin multiplies by the 16×16 matrix in double precision and quantizes in plain loops; operands are small
// integers, so that a transform is exact and codes can be compared.
#include "base/error.hpp"
#include "kernels/hadamard.hpp"
#include "numerics/float.hpp"
#include "numerics/int.hpp"
#include "quant/plan.hpp"
#include "support/quant_problem.hpp"
#include "support/quant_sites.hpp"

#include <catch2/catch_test_macros.hpp>
#include <catch2/matchers/catch_matchers_string.hpp>

#include <bit>
#include <cmath>

namespace {

using namespace kvant;
using Catch::Matchers::ContainsSubstring;
using kvant::test::integer_values;
using kvant::test::QuantProblem;
using kvant::test::types;
using kvant::test::uniform_values;
namespace ref = kvant::reference;

std::size_t at(int64_t i) { return static_cast<std::size_t>(i); }

template <class F>
ref::OperandLaw law() {
  return {[](float v) { return static_cast<double>(F::decode(F::encode(v))); }, F::max_finite, 1.0f, 0.0f, F::max_finite};
}
ref::OperandLaw law_of(const std::string& qtype) {
  return qtype == "int8" ? law<Int<8>>() : qtype == "int4" ? law<Int<4>>() : qtype == "float8_e4m3fn" ? law<E4M3fn>() : law<E5M2>();
}

/// (1/4)·H16·signs, 16 at a time along the rows or the columns of v [rows, cols].
std::vector<float> transformed(const std::vector<float>& v, int64_t cols, bool along_rows) {
  const uint32_t signs = hadamard_signs(0, stream_of("signs of y test/site dot_general0"));
  std::vector<float> out(v.size());
  const int64_t step = along_rows ? cols : 1;
  for (int64_t i = 0; i < static_cast<int64_t>(v.size()); ++i) {
    const int64_t place = (along_rows ? i / cols : i % cols) % 16, first = i - place * step;
    double sum = 0;
    for (int64_t l = 0; l < 16; ++l) {
      const bool minus = (std::popcount(static_cast<uint32_t>(place & l)) + static_cast<int>(signs >> l & 1u)) % 2 != 0;
      sum += (minus ? -1.0 : 1.0) * static_cast<double>(v[at(first + l * step)]);
    }
    out[at(i)] = static_cast<float>(sum / 4);
  }
  return out;
}

/// Values of codes; what shares a scale is a row or, within rows [first, last), a column.
void quantize_rows(const ref::OperandLaw& law, const std::vector<float>& v, int64_t cols, std::vector<double>& out) {
  std::vector<int64_t> cell(v.size());
  for (std::size_t i = 0; i < v.size(); ++i) cell[i] = static_cast<int64_t>(i) / cols;
  const auto q = ref::quantize_by(law, v, cell, static_cast<int64_t>(v.size()) / cols);
  for (std::size_t i = 0; i < v.size(); ++i) out.push_back(q.code[i] * static_cast<double>(q.scale_at(static_cast<int64_t>(i))));
}
std::vector<double> by_rows(const ref::OperandLaw& law, const std::vector<float>& v, int64_t cols) {
  std::vector<double> out;
  quantize_rows(law, v, cols, out);
  return out;
}
/// Rows of group e are [first[e], first[e + 1]); rows beyond the last group are 0.
std::vector<double> by_columns(const ref::OperandLaw& law, const std::vector<float>& v, int64_t cols, const std::vector<int64_t>& first) {
  std::vector<int64_t> cell(v.size(), -1);
  for (std::size_t e = 0; e + 1 < first.size(); ++e)
    for (int64_t i = first[e] * cols; i < first[e + 1] * cols; ++i) cell[at(i)] = static_cast<int64_t>(e) * cols + i % cols;
  const auto q = ref::quantize_by(law, v, cell, static_cast<int64_t>(first.size()) * cols);
  std::vector<double> out;
  for (std::size_t i = 0; i < v.size(); ++i) out.push_back(cell[i] < 0 ? 0.0 : q.code[i] * static_cast<double>(q.scale_at(static_cast<int64_t>(i))));
  return out;
}

struct Sum {
  double value = 0, size = 0;
  void add(double term) { value += term, size += std::fabs(term); }
};
double worst(const std::vector<float>& got, const std::vector<Sum>& expected) {
  double off = 0;
  for (std::size_t i = 0; i < expected.size(); ++i) {
    const double e = std::fabs(static_cast<double>(got[i]) - expected[i].value);
    if (e > 0 || std::isnan(got[i])) off = std::fmax(off, std::isnan(got[i]) ? HUGE_VAL : e / std::fmax(expected[i].size, 1e-300));
  }
  return off;
}

std::vector<double> wide(const std::vector<float>& v) { return {v.begin(), v.end()}; }

quant::Rule transforming(const std::string& weight, const std::string& act, const std::string& gradient) {
  auto rule = types(weight, act, gradient);
  rule.forward_transform = quant::Transform::hadamard16;
  return rule;
}

}  // namespace

TEST_CASE("operands are transformed before they are quantized, and gradients read them as they were", "[quant][transform]") {
  const int64_t rows = 21, k = 48, n = 19;
  struct Case {
    std::string weight, act, gradient;
    bool original;
  };
  for (const Case& c : {Case{"int8", "int8", "int8", false}, Case{"int8", "int8", "int8", true}, Case{"int8", "int8", "", false},
                        Case{"float8_e4m3fn", "float8_e4m3fn", "float8_e5m2", false}, Case{"int4", "int8", "int8", false},
                        Case{"int4", "", "", false}, Case{"int8", "", "int8", false}}) {
    for (const bool grouped : {false, true}) {
      for (const DType dtype : {DType::f32, DType::bf16}) {
        INFO(c.weight << " " << c.act << " " << c.gradient << (c.original ? " original" : "") << (grouped ? " grouped " : " dense ") << name_of(dtype));
        const std::vector<int> offsets{0, 0, 9, 18};
        const int64_t groups = grouped ? 3 : 1;
        const std::vector<int64_t> first = grouped ? std::vector<int64_t>{0, 0, 9, 18} : std::vector<int64_t>{0, rows};
        auto rule = transforming(c.weight, c.act, c.gradient);
        rule.original_residuals = c.original;
        QuantProblem p(rows, k, n, rule, grouped ? offsets : std::vector<int>{}, dtype);
        if (grouped) p.site.op = "dot_general0";  // the twin's signs are those of this name
        const auto x = integer_values(rows * k, 1, 15), w = integer_values(groups * k * n, 2, 15);
        p.set(x, w, uniform_values(rows * n, 3, 1e-4f));
        const auto g = p.g().floats();
        p.forward();
        p.backward();

        std::vector<int64_t> each_matrix;
        for (int64_t e = 0; e <= groups; ++e) each_matrix.push_back(e * k);
        const auto tx = transformed(x, k, false), tw = transformed(w, n, true);
        const auto qx = c.act.empty() ? wide(tx) : by_rows(law_of(c.act), tx, k), qw = by_columns(law_of(c.weight), tw, n, each_matrix);
        const bool rounds = !c.gradient.empty(), again = rounds && !c.original;
        const auto gi = rounds ? by_rows(law_of(c.gradient), g, n) : wide(g), gw = rounds ? by_columns(law_of(c.gradient), g, n, first) : wide(g);
        const auto rw = again ? by_rows(law_of(c.weight), w, n) : wide(w);
        const auto rx = again && !c.act.empty() ? by_columns(law_of(c.act), x, k, first) : wide(x);

        std::vector<Sum> y(at(rows * n)), dx(at(rows * k)), dw(at(groups * k * n));
        for (std::size_t e = 0; e + 1 < first.size(); ++e)
          for (int64_t r = first[e]; r < first[e + 1]; ++r)
            for (int64_t i = 0; i < k; ++i)
              for (int64_t j = 0; j < n; ++j) {
                const int64_t at_w = (static_cast<int64_t>(e) * k + i) * n + j;
                y[at(r * n + j)].add(qx[at(r * k + i)] * qw[at(at_w)]);
                dx[at(r * k + i)].add(gi[at(r * n + j)] * rw[at(at_w)]);
                dw[at(at_w)].add(rx[at(r * k + i)] * gw[at(r * n + j)]);
              }
        const double rounding = dtype == DType::f32 ? 5e-7 : 0x1p-8;
        CHECK(worst(p.y.floats(), y) < rounding);
        CHECK(worst(p.dx.floats(), dx) < rounding);
        CHECK(worst(p.dw(), dw) < 5e-7);
      }
    }
  }
}

TEST_CASE("tiles and blocks are those of the transformed operands", "[quant][transform]") {
  const int64_t rows = 12, k = 64, n = 10;
  auto tiled = transforming("int8", "int8", "");
  tiled.act_tile.contracted = tiled.weight_tile.contracted = {32, 0};
  QuantProblem p(rows, k, n, tiled);
  CHECK(quant::arithmetic_of(*p.recipe, Arm::forward, false) == "int32 in blocks");
  const auto x = integer_values(rows * k, 1, 15), w = integer_values(k * n, 2, 15);
  p.set(x, w, uniform_values(rows * n, 3));
  p.forward();
  const auto tx = transformed(x, k, false), tw = transformed(w, n, true);
  const auto qx = by_rows(law<Int<8>>(), tx, 32), qw = by_columns(law<Int<8>>(), tw, n, {0, 32, 64});
  std::vector<Sum> y(at(rows * n));
  for (int64_t r = 0; r < rows; ++r)
    for (int64_t i = 0; i < k; ++i)
      for (int64_t j = 0; j < n; ++j) y[at(r * n + j)].add(qx[at(r * k + i)] * qw[at(i * n + j)]);
  CHECK(worst(p.y.floats(), y) < 5e-7);
}

TEST_CASE("an outlier among the inputs costs less after a transform", "[quant][transform]") {
  const int64_t rows = 64, k = 16, n = 32;
  const auto w = uniform_values(k * n, 2);
  auto x = uniform_values(rows * k, 1);
  for (int64_t r = 0; r < rows; ++r) x[at(r * k + 5)] *= 10.0f;  // one input is large in every token
  double off[2] = {0, 0};
  for (const bool transforms : {false, true}) {
    QuantProblem p(rows, k, n, transforms ? transforming("int8", "int4", "") : types("int8", "int4", ""));
    p.set(x, w, uniform_values(rows * n, 3));
    p.forward();
    const auto y = p.y.floats();
    for (int64_t r = 0; r < rows; ++r)
      for (int64_t j = 0; j < n; ++j) {
        double sum = 0;
        for (int64_t i = 0; i < k; ++i) sum += static_cast<double>(x[at(r * k + i)]) * static_cast<double>(w[at(i * n + j)]);
        off[transforms] += std::pow(static_cast<double>(y[at(r * n + j)]) - sum, 2);
      }
  }
  INFO(off[0] << " " << off[1]);
  CHECK(off[1] < 0.5 * off[0]);
}

TEST_CASE("forward codes are of no use to the backward arms of a transformed product", "[quant][transform]") {
  const auto rule = transforming("int8", "int8", "int8");
  QuantProblem p(16, 32, 16, rule);
  CHECK(p.recipe->weight_residual == quant::Residual::requantized);
  CHECK(p.recipe->act_residual == quant::Residual::requantized);
  CHECK(p.recipe->weight_again.qtype == "int8");
  CHECK(quant::arithmetic_of(*p.recipe, Arm::dgrad, false) == "int32");
  auto original = rule;
  original.original_residuals = true;
  CHECK(QuantProblem(16, 32, 16, original).recipe->weight_residual == quant::Residual::original);
  auto named = rule;
  named.weight_residual_qtype = "float8_e4m3fn";
  CHECK(QuantProblem(16, 32, 16, named).recipe->weight_again.qtype == "float8_e4m3fn");
}

TEST_CASE("a mask of what was clipped is not to be had after a transform", "[quant][transform]") {
  for (const bool weight : {false, true}) {
    for (const char* calibration : {"absmax,0.9", "fixed,4", "rms,7"}) {
      auto rule = transforming("int8", "int8", "");
      (weight ? rule.weight_calibration : rule.act_calibration) = calibration;
      CHECK_THROWS_WITH(QuantProblem(4, 16, 4, rule), ContainsSubstring(std::string("the calibration \"") + calibration + "\" clips") &&
                                                          ContainsSubstring("disable_gradient_clipping = true"));
      CHECK_NOTHROW(QuantProblem(4, 16, 4, rule, {0, 2, 4}));  // experts have no mask
      rule.mask_gradients = false;
      QuantProblem p(4, 16, 4, rule);
      p.set(integer_values(64, 1, 15), integer_values(64, 2, 15), uniform_values(16, 3));
      p.forward();
      p.backward();
      std::vector<Sum> dx(64);
      const auto w = p.weight().floats(), g = p.g().floats();
      for (int64_t r = 0; r < 4; ++r)
        for (int64_t i = 0; i < 16; ++i)
          for (int64_t j = 0; j < 4; ++j) dx[at(r * 16 + i)].add(static_cast<double>(g[at(r * 4 + j)]) * static_cast<double>(w[at(i * 4 + j)]));
      CHECK(worst(p.dx.floats(), dx) < 5e-7);
    }
  }
}

TEST_CASE("sites that read one activation share its codes only where they transform it alike", "[quant][transform]") {
  const test::DeviceBuffer x(DType::f32, {4, 64}, uniform_values(256, 1));
  for (const bool transforms : {false, true}) {
    test::QuantSites sites;
    config::QuantSettings settings;
    settings.quantization = "rules";
    config::RuleSettings rule;
    rule.module_path = ".*/mlp/wi_.";
    rule.weight_qtype = rule.act_qtype = "int8";
    rule.forward_transform = transforms ? "hadamard16" : "";
    settings.rules.push_back(rule);
    const quant::Plan plan = quant::Plan::resolve(sites.table, settings);
    plan.bind(sites.table);
    if (transforms) CHECK_THAT(plan.table(), ContainsSubstring("forward int32 after hadamard16"));
    Exec exec;
    Arena arena("test step"), state("test state");
    StepContext ctx{exec, arena, state};
    Operand operand(x.view());
    for (const char* name : {"wi_0", "wi_1"}) sites.at(std::string("decoder/dense_layers/mlp/") + name, 0).op_ref().prepare(ctx, operand, {});
    exec.space.fence();
    CHECK((operand.payload[1].key != 0) == transforms);
  }
}
