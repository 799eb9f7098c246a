// One quantized product with its site, weight and operand, run through the op that a plan would bind.
#pragma once

#include "base/kokkos.hpp"
#include "ops/matmul_site.hpp"
#include "quant/calibrator.hpp"
#include "quant/quantized_matmul.hpp"
#include "quant/resolve.hpp"
#include "reference/quantized_matmul.hpp"
#include "support/device_buffer.hpp"
#include "tensor/arena.hpp"

#include <memory>
#include <string>
#include <vector>

namespace kvant::test {

inline std::vector<float> uniform_values(int64_t count, uint64_t seed, float scale = 1.0f) {
  std::vector<float> x(static_cast<std::size_t>(count));
  for (std::size_t i = 0; i < x.size(); ++i) x[i] = scale * (uniform01(philox(seed, 9, i).word[0]) * 2.0f - 1.0f);
  return x;
}

/// Integers of at most this magnitude: products and sums of them are exact.
inline std::vector<float> integer_values(int64_t count, uint64_t seed, int largest) {
  std::vector<float> x(static_cast<std::size_t>(count));
  for (std::size_t i = 0; i < x.size(); ++i)
    x[i] = static_cast<float>(static_cast<int>(philox(seed, 8, i).word[0] % static_cast<uint32_t>(2 * largest + 1)) -
                              largest);
  return x;
}

class QuantProblem {
 public:
  /// offsets empty: dense. The rule's types and calibrations say the recipe.
  QuantProblem(int64_t rows, int64_t k, int64_t n, const quant::Rule& rule, const std::vector<int>& offsets = {},
               DType dtype = DType::f32, const quant::Scheme* scheme = nullptr, const std::string& compat = {})
      : rows_(rows), groups_(offsets.empty() ? 1 : static_cast<int64_t>(offsets.size()) - 1), dtype_(dtype) {
    const bool grouped = !offsets.empty();
    const Shape shape = grouped ? Shape{groups_, k, n} : Shape{k, n};
    value_ = DeviceBuffer(DType::f32, shape);
    gradient_ = DeviceBuffer(DType::f32, shape, std::vector<float>(static_cast<std::size_t>(shape.numel()), 0.0f));
    value_view_ = value_;
    gradient_view_ = gradient_;
    if (grouped) {
      offsets_ = DeviceBuffer(DType::i32, {groups_ + 1}, offsets);
      groups.offsets = offsets_;
    }
    site.path = "test/site";
    site.op = grouped ? "gmm" : "dot_general0";
    site.kind = grouped ? SiteKind::grouped : SiteKind::linear;
    site.k = k;
    site.n = n;
    site.groups = grouped ? groups_ : 0;
    site.weight = {&value_view_, &gradient_view_, &epoch_};
    recipe = std::make_shared<const quant::Recipe>(quant::resolve_recipe(rule, site, scheme, compat));
    site.bound = quant::make_quantized_matmul(site, recipe, 1);
    x_ = DeviceBuffer(dtype, {rows, k});
    g_ = DeviceBuffer(dtype, {rows, n});
    y = DeviceBuffer(dtype, {rows, n});
    dx = DeviceBuffer(dtype, {rows, k});
    y.poison();
    dx.poison();
  }

  void set(const std::vector<float>& x, const std::vector<float>& w, const std::vector<float>& g) {
    x_.put(x);
    g_.put(g);
    set_weight(w);
    operand = Operand(x_.view());
  }
  void set_weight(const std::vector<float>& w) {
    value_.put(w);
    ++epoch_;
  }

  StepContext context(Phase phase = Phase::train) { return {exec, arena, state, 0, 0, 0, phase, nullptr, nullptr, sequence_length}; }

  void forward(Write mode = Write::overwrite, Phase phase = Phase::train) {
    StepContext ctx = context(phase);
    site.op_ref().prepare(ctx, operand, groups);
    site.op_ref().forward(ctx, operand, groups, y, mode);
    exec.space.fence();
  }
  void backward(Write mode = Write::overwrite, bool wants_dx = true) {
    StepContext ctx = context();
    site.op_ref().backward(ctx, operand, groups, g_, wants_dx ? dx.view() : TensorView{}, mode);
    exec.space.fence();
  }

  std::vector<float> dw() const { return gradient_.floats(); }
  void clear_gradient() { gradient_.put(std::vector<float>(static_cast<std::size_t>(gradient_.view().numel()), 0.0f)); }
  const DeviceBuffer& x() const { return x_; }
  const DeviceBuffer& g() const { return g_; }
  const DeviceBuffer& weight() const { return value_; }
  int64_t rows() const { return rows_; }
  int64_t group_count() const { return groups_; }

  Exec exec;
  Arena arena{"test step"}, state{"test state"};
  MatmulSite site;
  std::shared_ptr<const quant::Recipe> recipe;
  Groups groups;
  Operand operand;
  DeviceBuffer y, dx;
  int64_t sequence_length = 0;

 private:
  int64_t rows_, groups_;
  DType dtype_;
  uint64_t epoch_ = 0;
  DeviceBuffer value_, gradient_, offsets_, x_, g_;
  TensorView value_view_, gradient_view_;
};

inline quant::Rule types(const std::string& weight, const std::string& act, const std::string& gradient) {
  quant::Rule rule;
  rule.weight_qtype = weight;
  rule.act_qtype = act;
  rule.bwd_qtype = gradient;
  rule.origin = "a test";
  return rule;
}

}  // namespace kvant::test
