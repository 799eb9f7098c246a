// Linear: y = x · kernel, at one matmul site. No bias (the DeepSeek family has none in its projections).
#pragma once

#include "nn/param.hpp"

namespace kvant::nn {

struct Linear {
  Param kernel;
  MatmulSite site;

  /// kernel_shape has k·n elements in row-major [k, n] order (heads may be axes of their own, as the reference has them).
  /// std: deviation of the initial normal; truncated: the reference's default for plain projections.
  void build(const Builder& builder, const Place& place, int64_t k, int64_t n, const Shape& kernel_shape, Init init, double std,
             const std::string& op = "dot_general0");

  /// x is prepared for this site; several Linears may prepare one Operand.
  void prepare(StepContext& ctx, Operand& x) const { site.op_ref().prepare(ctx, x, {}); }
  void forward(StepContext& ctx, const Operand& x, const TensorView& y, Write mode = Write::overwrite) const;
  /// dx (+)= dy · kernelᵀ unless dx is empty; kernel.gradient += xᵀ · dy.
  void backward(StepContext& ctx, const Operand& x, const TensorView& dy, const TensorView& dx, Write dx_mode) const;
};

}  // namespace kvant::nn
