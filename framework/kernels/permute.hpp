// The way of tokens to their experts and back. A slot is t * K + k (token-major, k minor); rows are the slots sorted by
// expert, stably, so that row order is a pure function of `index`. Source: reference/maxtext-semantics.md 3.2.
//   R = T * K rows; index tensors int32; activations float32 or bfloat16 (all of one type), weights float32.
#pragma once

#include "tensor/arena.hpp"
#include "tensor/tensor.hpp"
#include "tensor/write.hpp"

namespace kvant {

struct Exec;

/// index [T,K] in [0,X) -> offsets [X+1] (rows of expert e: offsets[e] .. offsets[e+1]), row_of_slot [R], slot_of_row
/// [R]. An expert without tokens has an empty range.
void route_plan(const Exec& exec, TensorView index, int64_t experts, TensorView offsets, TensorView row_of_slot,
                TensorView slot_of_row, Arena& workspace);

/// xs[r] = x[slot_of_row[r] / K]. x [T,D] (row stride allowed) -> xs [R,D]. A vector is permuted as [T,1] -> [R,1].
void permute_forward(const Exec& exec, TensorView x, TensorView slot_of_row, int64_t k, TensorView xs);

/// dx[t] = (or +=) sum over k, in order, of dxs[row_of_slot[t K + k]]; the sum in float32.
void permute_backward(const Exec& exec, TensorView dxs, TensorView row_of_slot, int64_t k, TensorView dx,
                      Write dx_mode);

/// y[t] = base[t] + sum over k, in order, of weight[t,k] * ys[row_of_slot[t K + k]], in float32, then rounded.
/// base [T,D] (the shared expert, say) may be empty and may be y.
void combine_forward(const Exec& exec, TensorView ys, TensorView row_of_slot, TensorView weight, TensorView base,
                     TensorView y);

/// dys[row] = weight[t,k] * dy[t], dweight[t,k] = dy[t] . ys[row], row = row_of_slot[t K + k]. The gradient of base is
/// dy. dys may be ys.
void combine_backward(const Exec& exec, TensorView dy, TensorView ys, TensorView row_of_slot, TensorView weight,
                      TensorView dys, TensorView dweight);

}  // namespace kvant
