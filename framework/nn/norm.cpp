#include "nn/norm.hpp"

#include "kernels/rmsnorm.hpp"

namespace kvant::nn {

void RmsNorm::build(const Builder& builder, const Place& place, int64_t width) {
  eps = static_cast<float>(builder.model.normalization_layer_epsilon);
  builder.name(scale, place.numbered() + "/scale", {width}, Init::ones);
}

void RmsNorm::forward(StepContext& ctx, const TensorView& x, const TensorView& y, const TensorView& rstd) const {
  rmsnorm_forward(ctx.exec, x, scale.value, eps, y, rstd);
}

void RmsNorm::backward(StepContext& ctx, const TensorView& x, const TensorView& rstd, const TensorView& dy, const TensorView& dx,
                       Write dx_mode) const {
  rmsnorm_backward(ctx.exec, x, scale.value, rstd, dy, dx, dx_mode, scale.gradient, ctx.arena);
}

}  // namespace kvant::nn
