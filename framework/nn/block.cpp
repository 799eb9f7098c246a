#include "nn/block.hpp"

#include "kernels/elementwise.hpp"
#include "tensor/arena.hpp"

namespace kvant::nn {

void DecoderLayer::build(const Builder& builder, const Place& place, bool dense_layer) {
  dense = dense_layer;
  emb = builder.model.base_emb_dim;
  dtype = builder.dtype();
  norm1.build(builder, place / "pre_self_attention_layer_norm", emb);
  attention.build(builder, place / "self_attention");
  norm2.build(builder, place / "post_self_attention_layer_norm", emb);
  if (dense)
    mlp.build(builder, place / "mlp", builder.model.base_mlp_dim);
  else
    moe.build(builder, place / "DeepSeekMoeBlock_0");
}

void DecoderLayer::forward(StepContext& ctx, const Sequence& seq, const Balance& balance, const TensorView& x, const TensorView& y,
                           BlockSaved& saved) const {
  const int64_t T = seq.tokens();
  saved.attention_in = ctx.arena.allocate(dtype, {T, emb});
  saved.attention_rstd = ctx.arena.allocate(DType::f32, {T});
  saved.h = ctx.arena.allocate(dtype, {T, emb});
  saved.ffn_in = ctx.arena.allocate(dtype, {T, emb});
  saved.ffn_rstd = ctx.arena.allocate(DType::f32, {T});

  norm1.forward(ctx, x, saved.attention_in, saved.attention_rstd);
  saved.attention_operand = Operand(saved.attention_in);
  copy(ctx.exec, x, saved.h);
  attention.forward(ctx, seq, saved.attention_operand, saved.h, saved.attention);
  norm2.forward(ctx, saved.h, saved.ffn_in, saved.ffn_rstd);
  saved.ffn_operand = Operand(saved.ffn_in);
  copy(ctx.exec, saved.h, y);
  if (dense)
    mlp.forward(ctx, saved.ffn_operand, y, saved.mlp);
  else
    moe.forward(ctx, seq, balance, saved.ffn_operand, y, saved.moe);
}

void DecoderLayer::backward(StepContext& ctx, const Sequence& seq, const Balance& balance, const TensorView& x, const TensorView& g,
                            const BlockSaved& saved) const {
  const ArenaScope scope(ctx.arena);
  const TensorView dnormed = ctx.arena.allocate(dtype, {seq.tokens(), emb});
  if (dense)
    mlp.backward(ctx, saved.ffn_operand, g, dnormed, Write::overwrite, saved.mlp);
  else
    moe.backward(ctx, seq, balance, saved.ffn_operand, g, dnormed, saved.moe);
  norm2.backward(ctx, saved.h, saved.ffn_rstd, dnormed, g, Write::accumulate);
  attention.backward(ctx, seq, saved.attention_operand, g, dnormed, saved.attention);
  norm1.backward(ctx, x, saved.attention_rstd, dnormed, g, Write::accumulate);
}

}  // namespace kvant::nn
