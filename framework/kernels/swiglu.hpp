// SwiGLU: y = silu(a) * b, silu(a) = a / (1 + exp(-a)). Source: Shazeer 2020 (arXiv 2002.05202).
// a (gate, wi_0), b (up, wi_1) and all gradients [R,F], float32 or bfloat16 (all of one type), rows may be strided.
#pragma once

#include "tensor/tensor.hpp"

namespace kvant {

struct Exec;

/// y may be a or b. row_absmax [R] float32 unless empty: max |y| of what was stored, NaN if any is NaN.
void swiglu_forward(const Exec& exec, TensorView a, TensorView b, TensorView y, TensorView row_absmax = {});

/// With s = 1 / (1 + exp(-a)):  da = dy * b * s * (1 + a * (1 - s)), db = dy * a * s. da, db may be a, b or dy.
void swiglu_backward(const Exec& exec, TensorView a, TensorView b, TensorView dy, TensorView da, TensorView db);

}  // namespace kvant
