// Gated MLP: wo(silu(wi_0 x) · wi_1 x) (Shazeer 2020, "GLU variants", SwiGLU).
#pragma once

#include "nn/linear.hpp"

namespace kvant::nn {

struct MlpSaved {
  TensorView gate, up, hidden;  ///< [T,M]
  Operand activated;
};

struct Mlp {
  int64_t emb = 0, width = 0;
  DType dtype = DType::f32;
  Linear wi_0, wi_1, wo;

  void build(const Builder& builder, const Place& place, int64_t width);
  /// h += mlp(x)
  void forward(StepContext& ctx, Operand& x, const TensorView& h, MlpSaved& saved) const;
  /// dx (+)= gradient of x, given dh.
  void backward(StepContext& ctx, const Operand& x, const TensorView& dh, const TensorView& dx, Write dx_mode, const MlpSaved& saved) const;
};

}  // namespace kvant::nn
