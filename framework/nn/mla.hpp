// Multi-head latent attention with decoupled RoPE (DeepSeek-V2, arXiv 2405.04434, section 2.1; names and layouts of MaxText).
//   q = wq_b(q_norm(wq_a x)) or query(x);  [c | k_r] = wkv_a x;  [k_n | v] = wkv_b(kv_norm c)
//   score = ([q_n | rope(q_r)] · [k_n | rope(k_r)]) · scale,  scale = (dn+dr)^-1/2 · m², m = 0.1 · mscale · ln(rope_factor) + 1 (yarn)
#pragma once

#include "kernels/mla_pack.hpp"
#include "nn/linear.hpp"
#include "nn/norm.hpp"
#include "nn/sequence.hpp"
#include "nn/sliced_linear.hpp"

namespace kvant::nn {

struct MlaSaved {
  TensorView qa, q_rstd, kva, kv_rstd;  ///< projections before their norms [T,rq], [T,rkv+dr]; 1/rms of each row
  TensorView qn, kvn;                   ///< after the norms
  Operand q_latent, kv_latent;
  TensorView q, k, v;  ///< [B,H,S,dn+dr] twice, [B,H,S,dv]
  TensorView out, lse;
  Operand heads;  ///< attention's output [T, H·dv], what the out projection reads
};

struct Mla {
  int64_t emb = 0, heads = 0, rq = 0, rkv = 0, dn = 0, dr = 0, dv = 0;
  DType dtype = DType::f32;
  MlaPack layout;  ///< sizes, softmax scale and rotation of one call; batch and sequence are filled in per call

  Linear query, wq_a, wq_b, wkv_a, wkv_b, out;  ///< query where rq = 0, else wq_a, q_norm, wq_b
  bool sliced = false;                          ///< use_sliced_mla_proj: the two below stand for wq_b and wkv_b
  SlicedLinear q_slices, kv_slices;             ///< nope | rope, nope | value
  RmsNorm q_norm, kv_norm;
  MatmulSite scores, values;  ///< q·kᵀ and p·v: listed, always plain

  void build(const Builder& builder, const Place& place);

  /// x carries the normed input [T,E]; h += attention(x).
  void forward(StepContext& ctx, const Sequence& seq, Operand& x, const TensorView& h, MlaSaved& saved) const;
  /// dh is the gradient of h; dx [T,E] is overwritten.
  void backward(StepContext& ctx, const Sequence& seq, const Operand& x, const TensorView& dh, const TensorView& dx,
                const MlaSaved& saved) const;

 private:
  MlaPack packing(const Sequence& seq) const;
  void prepare_b(StepContext& ctx, const Linear& whole, const SlicedLinear& slices, Operand& x) const;
  void forward_b(StepContext& ctx, const Linear& whole, const SlicedLinear& slices, const Operand& x, const TensorView& y) const;
  void backward_b(StepContext& ctx, const Linear& whole, const SlicedLinear& slices, const Operand& x, const TensorView& dy, const TensorView& dx) const;
};

}  // namespace kvant::nn
