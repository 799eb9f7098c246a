// Causal self-attention over packed documents, forward and backward, without ever holding the S x S scores.
//
//   score[i, j] = q[i] . k[j]            where j <= i and segment[i] == segment[j]; everything else is masked
//   out[i]      = sum_j exp(score[i, j] - lse[i]) v[j],     lse[i] = log sum_j exp(score[i, j])
//
// Online softmax: Milakov and Gimelshein, "Online normalizer calculation for softmax" (2018); backward by recomputing
// the probabilities from lse: Dao et al., "FlashAttention" (2022), appendix B.
//
// Segments: equality is the whole rule, and segment 0 (padding) is a segment like any other: padding attends to earlier
// padding. MaxText does so (its recorded layer outputs at padding positions agree with this rule to 1e-6 and with no
// other that was tried), and padding tokens reach the router's load-balance loss, so it is visible. A row therefore
// always sees at least itself: no row is fully masked.
#pragma once

#include "tensor/arena.hpp"
#include "tensor/tensor.hpp"

#include <cstdint>

namespace kvant {

struct Exec;

struct AttentionShape {
  int64_t batch = 0;
  int64_t heads = 0;
  int64_t kv_heads = 0;  ///< divides heads; query head h reads key/value head h / (heads / kv_heads)
  int64_t seq = 0;
  int64_t qk_dim = 0;  ///< width of q and k
  int64_t v_dim = 0;   ///< width of v and out; need not be qk_dim (MLA: it is not)
};

/// q [B, H, S, qk_dim] (the softmax scale already multiplied in), k [B, Hkv, S, qk_dim], v [B, Hkv, S, v_dim];
/// segment [B, S] int32, or an empty view: the whole row is one segment.
/// Writes out [B, S, H, v_dim] (token-major: the out projection reads it as [B*S, H*v_dim]) and lse [B, H, S] float32.
/// q, k, v, out are all float32 or all bfloat16, contiguous; arithmetic is float32. `workspace` gives a few blocks per
/// thread and is as it was on return. Results do not depend on the number of threads. Throws Error when a shape, type
/// or layout is not as stated.
void attention_forward(const Exec& exec, const AttentionShape& shape, const TensorView& q, const TensorView& k,
                       const TensorView& v, const TensorView& segment, const TensorView& out, const TensorView& lse,
                       Arena& workspace);

/// Given out and lse of the forward call and dout [B, S, H, v_dim], overwrites dq, dk, dv (layouts of q, k, v; same
/// type). dk and dv sum over the query heads of a group. The same guarantees and errors as forward.
void attention_backward(const Exec& exec, const AttentionShape& shape, const TensorView& q, const TensorView& k,
                        const TensorView& v, const TensorView& segment, const TensorView& out, const TensorView& lse,
                        const TensorView& dout, const TensorView& dq, const TensorView& dk, const TensorView& dv,
                        Arena& workspace);

}  // namespace kvant
