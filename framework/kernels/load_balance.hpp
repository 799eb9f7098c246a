// Load balance of experts: the auxiliary loss and the update of the selection bias without a loss.
//   loss = lambda * X^2 * mean over b, e of density[b,e] * prob[b,e]
//   density[b,e] = (1 / (S K)) * number of (s, k) with index = e;    prob[b,e] = mean over s of softmax(score)_e
// Padding tokens count. Source: reference/maxtext-semantics.md 2.3 with the rules of version 0.2.5 (score without bias,
// density sums to 1). Where the softmax is of the logits themselves, give the logits as `score` and
// ScoreFunction::identity.
#pragma once

#include "kernels/router.hpp"
#include "tensor/arena.hpp"
#include "tensor/tensor.hpp"
#include "tensor/write.hpp"

namespace kvant {

/// score [B*S,X] float32, index [B*S,K] int32 -> density [B,X] float32 (kept for backward), loss [1] float32.
/// `lambda` includes the mean over layers (load_balance_loss_weight / number of MoE layers).
void load_balance_forward(const Exec& exec, TensorView score, TensorView index, int64_t batch, float lambda,
                          TensorView density, TensorView loss, Write loss_mode, Arena& workspace);

/// Adds d(loss) / d(logits) to dlogits [B*S,X] float32; `function` is how score came from the logits.
void load_balance_backward(const Exec& exec, TensorView score, TensorView density, float lambda, ScoreFunction function,
                           TensorView dlogits);

/// counts [X] int32 = or += offsets[e+1] - offsets[e], from route_plan's offsets [X+1].
void expert_counts(const Exec& exec, TensorView offsets, TensorView counts, Write mode);

/// bias[e] += rate * sign(mean(counts) - counts[e]), sign(0) = 0. counts are those of the whole step, over all ranks.
/// The sign is taken of integers (sum(counts) - X * counts[e]), so that no rounding of the mean decides it.
void router_bias_update(const Exec& exec, TensorView counts, float rate, TensorView bias);

}  // namespace kvant
