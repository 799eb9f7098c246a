// Mixture of experts: router, dropless dispatch by a stable sort, grouped products, combine; a shared expert beside
// (DeepSeekMoE, arXiv 2401.06066; router of DeepSeek-V3, arXiv 2412.19437, eq. 12-16).
#pragma once

#include "kernels/router.hpp"
#include "nn/mlp.hpp"
#include "nn/sequence.hpp"

namespace kvant::nn {

/// What balancing asks of a step, shared by all MoE layers.
struct Balance {
  float loss_weight = 0;     ///< λ / number of MoE layers; 0: no loss
  float gradient_weight = 0; ///< the same times the weight of this micro-batch in the step
  TensorView loss;           ///< f32 [1]: this layer's λ-weighted term is added
  TensorView nonfinite;      ///< i32 [1]: router logits that are not finite are counted
};

struct MoeSaved {
  Operand gate_input;
  TensorView score, index, weight, density;       ///< [T,X], [T,K], [T,K] f32 / i32; [B,X]
  TensorView offsets, row_of_slot, slot_of_row;   ///< dispatch, see kernels/permute.hpp
  TensorView sorted, gate, up, hidden, expert_out;  ///< [R,E], [R,F] three times, [R,E]
  Operand sorted_operand, hidden_operand;
  MlpSaved shared;
};

struct Moe {
  int64_t emb = 0, experts = 0, k = 0, width = 0, shared_experts = 0;
  DType dtype = DType::f32;
  bool float32_gate = true;
  RouterConfig router;
  Linear gate;
  Param bias;  ///< [X], moved by its update rule alone
  Param wi_0, wi_1, wo;
  MatmulSite wi_0_site, wi_1_site, wo_site;
  Mlp shared;
  TensorView counts;  ///< i32 [X], tokens of each expert in this optimizer step; given by the model, empty: not counted

  void build(const Builder& builder, const Place& place);
  /// h += routed(x) + shared(x)
  void forward(StepContext& ctx, const Sequence& seq, const Balance& balance, Operand& x, const TensorView& h, MoeSaved& saved) const;
  /// dx [T,E] is overwritten.
  void backward(StepContext& ctx, const Sequence& seq, const Balance& balance, const Operand& x, const TensorView& dh, const TensorView& dx,
                const MoeSaved& saved) const;

 private:
  void route(StepContext& ctx, const Sequence& seq, const Balance& balance, Operand& x, MoeSaved& saved) const;
  void build_expert(const Builder& builder, const Place& place, const char* name, Param& param, MatmulSite& site, int64_t in, int64_t out) const;
};

}  // namespace kvant::nn
