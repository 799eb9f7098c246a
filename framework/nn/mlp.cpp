#include "nn/mlp.hpp"

#include "kernels/swiglu.hpp"
#include "tensor/arena.hpp"

#include <cmath>

namespace kvant::nn {

void Mlp::build(const Builder& builder, const Place& place, int64_t hidden_width) {
  emb = builder.model.base_emb_dim;
  width = hidden_width;
  dtype = builder.dtype();
  const double in = 1.0 / std::sqrt(static_cast<double>(emb)), inner = 1.0 / std::sqrt(static_cast<double>(width));
  wi_0.build(builder, place / "wi_0", emb, width, {emb, width}, Init::truncated_normal, in);
  wi_1.build(builder, place / "wi_1", emb, width, {emb, width}, Init::truncated_normal, in);
  wo.build(builder, place / "wo", width, emb, {width, emb}, Init::truncated_normal, inner);
}

void Mlp::forward(StepContext& ctx, Operand& x, const TensorView& h, MlpSaved& saved) const {
  const int64_t tokens = x.tensor.rows();
  saved.gate = ctx.arena.allocate(dtype, {tokens, width});
  saved.up = ctx.arena.allocate(dtype, {tokens, width});
  saved.hidden = ctx.arena.allocate(dtype, {tokens, width});
  wi_0.prepare(ctx, x);
  wi_1.prepare(ctx, x);
  wi_0.forward(ctx, x, saved.gate);
  wi_1.forward(ctx, x, saved.up);
  swiglu_forward(ctx.exec, saved.gate, saved.up, saved.hidden);
  saved.activated = Operand(saved.hidden);
  wo.prepare(ctx, saved.activated);
  wo.forward(ctx, saved.activated, h, Write::accumulate);
}

void Mlp::backward(StepContext& ctx, const Operand& x, const TensorView& dh, const TensorView& dx, Write dx_mode, const MlpSaved& saved) const {
  const ArenaScope scope(ctx.arena);
  const int64_t tokens = x.tensor.rows();
  const TensorView dhidden = ctx.arena.allocate(dtype, {tokens, width});
  const TensorView dgate = ctx.arena.allocate(dtype, {tokens, width});
  const TensorView dup = ctx.arena.allocate(dtype, {tokens, width});
  wo.backward(ctx, saved.activated, dh, dhidden, Write::overwrite);
  swiglu_backward(ctx.exec, saved.gate, saved.up, dhidden, dgate, dup);
  wi_1.backward(ctx, x, dup, dx, dx_mode);
  wi_0.backward(ctx, x, dgate, dx, Write::accumulate);
}

}  // namespace kvant::nn
