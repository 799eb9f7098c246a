// Decoder layer of the DeepSeek family: h = x + MLA(norm1 x); y = h + FFN(norm2 h), FFN = dense MLP or mixture of experts.
#pragma once

#include "nn/mla.hpp"
#include "nn/moe.hpp"

namespace kvant::nn {

struct BlockSaved {
  TensorView attention_in, attention_rstd, ffn_in, ffn_rstd;  ///< normed inputs [T,E] and 1/rms [T]
  TensorView h;                                               ///< after attention [T,E]
  Operand attention_operand, ffn_operand;
  MlaSaved attention;
  MlpSaved mlp;
  MoeSaved moe;
};

struct DecoderLayer {
  bool dense = false;
  int64_t emb = 0;
  DType dtype = DType::f32;
  RmsNorm norm1, norm2;
  Mla attention;
  Mlp mlp;  ///< where dense
  Moe moe;  ///< where not

  void build(const Builder& builder, const Place& place, bool dense_layer);
  /// x [T,E] -> y [T,E]; x must stay as it is until backward.
  void forward(StepContext& ctx, const Sequence& seq, const Balance& balance, const TensorView& x, const TensorView& y, BlockSaved& saved) const;
  /// g [T,E] is the gradient of y on entry and of x on return.
  void backward(StepContext& ctx, const Sequence& seq, const Balance& balance, const TensorView& x, const TensorView& g, const BlockSaved& saved) const;
};

}  // namespace kvant::nn
