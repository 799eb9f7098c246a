// AdamW, one fused pass over parameter, gradient and moments. Source: Loshchilov and Hutter 2019,
// reference/maxtext-semantics.md 4.1.
//   g' = factor * g                      m = b1 m + (1 - b1) g'               v = b2 v + (1 - b2) g'^2
//   p -= lr * ( (m / bias_correction1) / (sqrt(v / bias_correction2 + eps_root) + eps) + weight_decay * p )
#pragma once

#include "tensor/tensor.hpp"

namespace kvant {

struct Exec;

struct AdamwHyper {
  float lr = 0.0f;
  float b1 = 0.9f, b2 = 0.95f;
  float eps = 1e-8f, eps_root = 0.0f;
  float weight_decay = 0.1f;
  float bias_correction1 = 1.0f, bias_correction2 = 1.0f;  ///< 1 - b1^t, 1 - b2^t with t from 1; computed in double
};

/// p, g, m, v: float32, same shape, contiguous. grad_factor float32 [1] in execution memory (clipping); empty means 1.
/// clear_gradient leaves g zero for the next accumulation.
void adamw_step(const Exec& exec, TensorView p, TensorView g, TensorView m, TensorView v, const AdamwHyper& hyper,
                TensorView grad_factor, bool clear_gradient);

}  // namespace kvant
