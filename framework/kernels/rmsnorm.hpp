// RMSNorm over the last axis, and its fusion with the residual addition.
//   rstd = 1 / sqrt(mean(x^2) + eps)           mean in float32
//   y    = cast(cast(x * rstd) * cast(scale))  cast = rounding to y's storage type
// Source: Zhang and Sennrich 2019, with the two roundings of reference/maxtext-semantics.md 2.1.
//
// T rows, D columns; activations float32 or bfloat16 (all of one type), `scale`, `rstd`, `dscale` and maxima float32.
// Every activation may have a row stride (columns of a wider matrix). Errors: shapes or types that do not fit.
#pragma once

#include "tensor/arena.hpp"
#include "tensor/tensor.hpp"
#include "tensor/write.hpp"

namespace kvant {

struct Exec;

/// x [T,D], scale [D] -> y [T,D], rstd [T]; row_absmax [T] (max |y| of what was stored, NaN if any is NaN) unless
/// empty.
void rmsnorm_forward(const Exec& exec, TensorView x, TensorView scale, float eps, TensorView y, TensorView rstd,
                     TensorView row_absmax = {});

/// sum = a + b (rounded to its storage type), y = norm(sum as stored). `sum` may be `a` or `b`.
void add_rmsnorm_forward(const Exec& exec, TensorView a, TensorView b, TensorView sum, TensorView scale, float eps,
                         TensorView y, TensorView rstd, TensorView row_absmax = {});

/// With x_ = x * rstd and g = dy * scale:  dx = rstd * (g - x_ * mean(g * x_)), dscale += sum over rows of dy * x_.
/// `x` is what was normalised (the sum, where the addition was fused). dx may be dy; dscale [D] accumulates.
void rmsnorm_backward(const Exec& exec, TensorView x, TensorView scale, TensorView rstd, TensorView dy, TensorView dx,
                      Write dx_mode, TensorView dscale, Arena& workspace);

}  // namespace kvant
