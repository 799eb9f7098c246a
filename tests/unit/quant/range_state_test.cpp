// Delayed scaling: the range of a step comes from the steps before; micro-batches, evaluation and recompute do not move it.
#include "base/error.hpp"
#include "quant/range_state.hpp"
#include "support/quant_problem.hpp"

#include "numerics/float.hpp"

#include <catch2/catch_test_macros.hpp>

#include <cmath>

namespace {

using namespace kvant;
using kvant::test::DeviceBuffer;
using kvant::test::QuantProblem;
using kvant::test::types;
using kvant::test::uniform_values;

class States {
 public:
  explicit States(quant::DelayedScaling setting) : state_(recipe(quant::Scaling::delayed, setting)) {}
  explicit States(float factor) : state_(recipe(quant::Scaling::running_mean, {}, factor)) {}
  float range(std::vector<float> rows, int64_t step, Phase phase = Phase::train) {
    const DeviceBuffer x(DType::f32, {static_cast<int64_t>(rows.size()), 1}, rows), out(DType::f32, {1});
    QuantizeJob job;
    job.x = x;
    StepContext ctx{exec_, arena_, memory_, step, 0, 0, phase};
    state_.use(ctx, job, out);
    exec_.space.fence();
    return out.floats()[0];
  }
  float range(float magnitude, int64_t step, Phase phase = Phase::train) { return range(std::vector<float>{-magnitude}, step, phase); }

 private:
  static quant::OperandRecipe recipe(quant::Scaling scaling, quant::DelayedScaling setting, float factor = 1) {
    quant::OperandRecipe r;
    r.qtype = "int8";
    r.scaling = scaling;
    r.delayed = setting;
    r.calibration.factor = factor;
    return r;
  }
  Exec exec_;
  Arena arena_{"test step"}, memory_{"test state"};
  quant::RangeState state_;
};

}  // namespace

TEST_CASE("the range is margin times the largest of the last steps' maxima", "[quant][delayed]") {
  States s(quant::DelayedScaling{.history = 3, .margin = 2.0, .initial = 5.0});
  CHECK(s.range(1.0f, 0) == 5.0f);
  CHECK(s.range(4.0f, 0) == 5.0f);                 // a second micro-batch: one maximum for the step
  CHECK(s.range(100.0f, 0, Phase::replay) == 5.0f);  // recompute records nothing
  CHECK(s.range(0.5f, 1) == 8.0f);                 // 2 · max(4)
  CHECK(s.range(1.0f, 2) == 8.0f);
  CHECK(s.range(1.0f, 3) == 8.0f);                 // ring 4, 0.5, 1
  CHECK(s.range(50.0f, 3, Phase::eval) == 2.0f);   // the evaluation sees the step before it as finished; 4 has left: 0.5, 1, 1
  CHECK(s.range(50.0f, 3, Phase::eval) == 2.0f);
  CHECK(s.range(0.0f, 4) == 2.0f);
  CHECK(s.range(0.0f, 5) == 2.0f);
  CHECK(s.range(0.0f, 6) == 2.0f);
  CHECK(s.range(0.0f, 7) == 2.0f);                 // three steps of zeros: the range stays
  CHECK(std::isnan(s.range(HUGE_VALF, 8)));        // poisons, so that nothing hides it
  CHECK(s.range(1.0f, 9) == 2.0f);
  CHECK(s.range(1.0f, 10) == 2.0f);
}

TEST_CASE("a static range is the mean of all that was measured", "[quant][delayed]") {
  States s(0.5f);
  CHECK(s.range({9, 1}, 0, Phase::eval) == 2.5f);         // nothing recorded yet: that of these rows, times the factor
  CHECK(s.range({2, -4}, 0) == 1.5f);                     // the batch itself counts
  CHECK(s.range({5, 5}, 0) == 2.0f);                      // means 3, 5
  CHECK(s.range({100, 100}, 0, Phase::replay) == 2.0f);
  CHECK(s.range({100, 100}, 0, Phase::eval) == 2.0f);
  CHECK(std::isnan(s.range({HUGE_VALF, 1}, 1)));
  CHECK(s.range({10, 10}, 2) == 3.0f);                    // 3, 5, 10
}

TEST_CASE("act_static_scale quantizes as that constant range does", "[quant][delayed]") {
  const int64_t rows = 6, k = 32, n = 8;
  auto rule = types("int8", "int8", "int8"), fixed = rule;
  rule.act_static_scale = true;
  rule.act_batch_axes = {0, 1};
  std::vector<float> x = uniform_values(rows * k, 1);
  for (int64_t r = 0; r < rows; ++r) x[static_cast<std::size_t>(r * k)] = static_cast<float>(r) + 1;  // maxima 1 … 6
  fixed.act_calibration = "fixed,3.5";
  fixed.mask_gradients = false;  // the reference masks by the method's name
  QuantProblem a(rows, k, n, rule), b(rows, k, n, fixed);
  for (QuantProblem* p : {&a, &b}) {
    p->set(x, uniform_values(k * n, 2), uniform_values(rows * n, 3));
    p->forward();
    p->backward();
  }
  CHECK(a.y.floats() == b.y.floats());
  CHECK(a.dx.floats() == b.dx.floats());
  CHECK(a.dw() == b.dw());
}

TEST_CASE("step 0 of delayed scaling is a constant range, bit for bit", "[quant][delayed]") {
  const int64_t rows = 20, k = 32, n = 24;
  auto fixed = types("float8_e4m3fn", "float8_e4m3fn", "float8_e5m2");
  fixed.act_calibration = fixed.weight_calibration = fixed.bwd_calibration = "fixed,0.5";
  fixed.mask_gradients = false;
  const quant::DelayedScaling setting{.history = 4, .margin = 1.0, .initial = 0.5};
  auto backward = fixed, forward = types("float8_e4m3fn", "float8_e4m3fn", "float8_e5m2");
  backward.bwd_calibration = "absmax";
  backward.disable_channelwise_axes = true;
  backward.delayed_backward = setting;
  forward.disable_channelwise_axes = true;
  forward.delayed_forward = setting;
  for (const std::vector<int>& offsets : {std::vector<int>{}, std::vector<int>{0, 7, 7, 20}}) {
    QuantProblem a(rows, k, n, backward, offsets), b(rows, k, n, fixed, offsets), c(rows, k, n, forward, offsets);
    const int64_t groups = a.group_count();
    for (QuantProblem* p : {&a, &b, &c}) {
      p->set(uniform_values(rows * k, 1), uniform_values(groups * k * n, 2), uniform_values(rows * n, 3));
      p->forward();
      p->backward();
    }
    CHECK(a.y.floats() == b.y.floats());
    CHECK(a.dx.floats() == b.dx.floats());
    CHECK(a.dw() == b.dw());
    CHECK(c.y.floats() == b.y.floats());
  }
}

TEST_CASE("where all operands have a history the gradient is quantized as it is, with a scale of 1 in step 0", "[quant][delayed]") {
  const int64_t rows = 20, k = 32, n = 24;
  auto rule = types("float8_e4m3fn", "float8_e4m3fn", "float8_e5m2");
  rule.disable_channelwise_axes = true;
  rule.delayed_forward = rule.delayed_backward = quant::DelayedScaling{};
  QuantProblem p(rows, k, n, rule);
  const auto x = uniform_values(rows * k, 1, 3.0f), w = uniform_values(k * n, 2), g = uniform_values(rows * n, 3, 1e-2f);
  const auto rounded = [](const std::vector<float>& v, bool gradient) {
    std::vector<double> r;
    for (const float f : v) r.push_back(static_cast<double>(gradient ? E5M2::decode(E5M2::encode(f)) : E4M3fn::decode(E4M3fn::encode(f))));
    return r;
  };
  p.set(x, w, g);
  p.forward();
  p.backward();
  const auto qx = rounded(x, false), qw = rounded(w, false), qg = rounded(g, true);
  const std::vector<float> y = p.y.floats(), dx = p.dx.floats(), dw = p.dw();
  const auto at = [](int64_t i, int64_t j, int64_t columns) { return static_cast<std::size_t>(i * columns + j); };
  // Sums of at most 32 products in f32: 32 half units of the last place of sums below 50.
  for (int64_t i = 0; i < rows; ++i)
    for (int64_t j = 0; j < n; ++j) {
      double sum = 0;
      for (int64_t l = 0; l < k; ++l) sum += qx[at(i, l, k)] * qw[at(l, j, n)];
      CHECK(std::fabs(sum - static_cast<double>(y[at(i, j, n)])) < 1e-4);
    }
  for (int64_t i = 0; i < rows; ++i)
    for (int64_t l = 0; l < k; ++l) {
      double sum = 0;
      for (int64_t j = 0; j < n; ++j) sum += qg[at(i, j, n)] * qw[at(l, j, n)];
      CHECK(std::fabs(sum - static_cast<double>(dx[at(i, l, k)])) < 1e-6);
    }
  for (int64_t l = 0; l < k; ++l)
    for (int64_t j = 0; j < n; ++j) {
      double sum = 0;
      for (int64_t i = 0; i < rows; ++i) sum += qx[at(i, l, k)] * qg[at(i, j, n)];
      CHECK(std::fabs(sum - static_cast<double>(dw[at(l, j, n)])) < 3e-6);
    }
}

TEST_CASE("with weights frozen every micro-batch gives the bits of the first, and recompute those of the forward pass", "[quant][delayed]") {  // reports D08, D09
  const int64_t rows = 16, k = 32, n = 24;
  for (const bool delays : {false, true}) {
    auto rule = types("int8", "int8", "int8");
    if (delays) rule.delayed_forward = rule.delayed_backward = quant::DelayedScaling{.history = 4, .margin = 1.0, .initial = 1.0};
    QuantProblem p(rows, k, n, rule);
    const auto x = uniform_values(rows * k, 1, 3.0f), w = uniform_values(k * n, 2), g = uniform_values(rows * n, 3, 1e-3f);
    p.set(x, w, g);
    std::vector<float> y, dw;
    for (int64_t micro_batch = 0; micro_batch < 4; ++micro_batch) {
      p.operand = Operand(p.x().view());
      StepContext ctx{p.exec, p.arena, p.state, 2, micro_batch, 0, Phase::train};
      p.clear_gradient();
      p.site.op_ref().prepare(ctx, p.operand, p.groups);
      p.site.op_ref().forward(ctx, p.operand, p.groups, p.y, Write::overwrite);
      p.exec.space.fence();
      const auto first_pass = p.y.floats();
      Operand again(p.x().view());  // activation recompute
      StepContext replay{p.exec, p.arena, p.state, 2, micro_batch, 0, Phase::replay};
      p.site.op_ref().prepare(replay, again, p.groups);
      p.site.op_ref().forward(replay, again, p.groups, p.y, Write::overwrite);
      p.exec.space.fence();
      CHECK(p.y.floats() == first_pass);
      p.site.op_ref().backward(ctx, again, p.groups, p.g(), p.dx, Write::overwrite);
      p.exec.space.fence();
      if (micro_batch == 0) y = first_pass, dw = p.dw();
      CHECK(first_pass == y);
      CHECK(p.dw() == dw);
    }
    // The next step, with a new value of the weight, uses what was seen: x up to 3 is no longer clipped at 1.
    p.set_weight(uniform_values(k * n, 4));
    p.operand = Operand(p.x().view());
    StepContext ctx{p.exec, p.arena, p.state, 3, 0, 0, Phase::train};
    p.site.op_ref().prepare(ctx, p.operand, p.groups);
    p.exec.space.fence();
    if constexpr (exec_is_host) {
      const float scale = p.operand.find(1)->scale.as<float>()[0];
      float largest = 0;
      for (int64_t i = 0; i < (delays ? rows * k : k); ++i) largest = std::fmax(largest, std::fabs(x[static_cast<std::size_t>(i)]));
      CHECK(scale == largest / 127.0f);
    }
  }
}
