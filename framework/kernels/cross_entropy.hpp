// Cross entropy with z-loss over rows of logits, its gradient in place.
//   lse = log sum_v exp(l_v)       loss = mask * (lse - l_target + z * lse^2)       z_term = mask * z * lse^2
//   dlogits = (softmax * (1 + 2 z lse) - onehot(target)) * mask * grad_scale
// Source: reference/maxtext-semantics.md 2.5. logits [T,V] float32 or bfloat16, contiguous rows (row stride allowed);
// sums over V in fixed blocks, so that the thread count changes no bit.
#pragma once

#include "tensor/tensor.hpp"

namespace kvant {

struct Exec;

struct CrossEntropyConfig {
  float z_loss = 0.0f;          ///< z_loss_multiplier
  float grad_scale = 1.0f;      ///< 1 / (valid targets of the step), say
  bool write_gradient = false;  ///< dlogits replaces logits
};

/// All [T]; those marked optional may be empty.
struct CrossEntropyResult {
  TensorView loss;         ///< float32
  TensorView z_term;       ///< float32, optional
  TensorView lse;          ///< float32, optional, not masked
  TensorView argmax;       ///< int32, optional: the first largest logit
  TensorView row_max;      ///< float32, optional: the largest logit (NaN if one is NaN)
  TensorView bad_targets;  ///< int32 [1]: += rows with mask != 0 whose target lies outside [0, V); their loss and
                           ///< gradient are 0
};

/// targets int32 [T], mask int32 or float32 [T] (a float is a weight). A row with mask 0 has loss and gradient exactly
/// 0, whatever its logits.
void cross_entropy(const Exec& exec, TensorView logits, TensorView targets, TensorView mask,
                   const CrossEntropyConfig& config, const CrossEntropyResult& result);

}  // namespace kvant
