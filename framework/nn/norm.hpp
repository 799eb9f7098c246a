// RMSNorm: y = x · rsqrt(mean(x²) + eps) · scale (Zhang and Sennrich 2019, eq. 4), statistics in f32.
#pragma once

#include "nn/param.hpp"

namespace kvant::nn {

struct RmsNorm {
  Param scale;  ///< [D], starts at 1
  float eps = 1e-6f;

  void build(const Builder& builder, const Place& place, int64_t width);

  /// x [T,D], y [T,D] (rows of either may be strided), rstd [T] f32 is kept for backward.
  void forward(StepContext& ctx, const TensorView& x, const TensorView& y, const TensorView& rstd) const;
  /// dx (+)= gradient; scale.gradient accumulates.
  void backward(StepContext& ctx, const TensorView& x, const TensorView& rstd, const TensorView& dy, const TensorView& dx, Write dx_mode) const;
};

}  // namespace kvant::nn
