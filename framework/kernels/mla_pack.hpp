// Multi-head latent attention: from the projections to what the attention kernel reads, rotation and layout change in
// one pass.
//   q [b,h,s] = q_scale * [ q_nope | rope(q_rope) ]       k [b,h,s] = [ k_nope | rope(k_rope) ]       v [b,h,s] = v
// k_rope is one head that all H share. rope at angle = float32(position) * frequency (rounded to float32, as the
// reference does), cos and sin times rope_scale. With `interleave` the input pairs are (x_2i, x_2i+1), else (x_i,
// x_i+dr/2); the output is always [all first parts, all second parts]. Source: reference/maxtext-semantics.md 2.2
// (DeepSeek-V2, arXiv 2405.04434).
//
// Activations float32 or bfloat16 (all of one type), contiguous unless said; positions int32 [B*S]; frequency float32
// [dr/2].
#pragma once

#include "tensor/tensor.hpp"

namespace kvant {

struct Exec;

struct MlaPack {
  int64_t batch = 0, sequence = 0, heads = 0;
  int64_t nope = 0, rope = 0, value = 0;  ///< dn, dr, dv
  float q_scale = 1.0f;                   ///< softmax scale, multiplied into q
  float rope_scale = 1.0f;                ///< RopeTable::attention_scale
  bool interleave = true;                 ///< rope_interleave
};

/// q_raw [B,S,H,dn+dr], kv_raw [B,S,H,dn+dv], k_rope_raw [B*S,dr] (row stride allowed)
/// -> q [B,H,S,dn+dr], k [B,H,S,dn+dr], v [B,H,S,dv].
void mla_pack_forward(const Exec& exec, const MlaPack& pack, TensorView q_raw, TensorView kv_raw, TensorView k_rope_raw,
                      TensorView positions, TensorView frequency, TensorView q, TensorView k, TensorView v);

/// dq, dk [B,H,S,dn+dr], dv [B,H,S,dv] -> dq_raw, dkv_raw, dk_rope_raw (sum over heads in order; row stride allowed):
/// overwritten.
void mla_pack_backward(const Exec& exec, const MlaPack& pack, TensorView dq, TensorView dk, TensorView dv,
                       TensorView positions, TensorView frequency, TensorView dq_raw, TensorView dkv_raw,
                       TensorView dk_rope_raw);

}  // namespace kvant
