// Operations on every element: sums, copies and casts. Arithmetic in float32, results rounded to the storage type of
// the output. All tensors of a call have the same shape; types may differ (float32, bfloat16), rows may be strided.
#pragma once

#include "tensor/tensor.hpp"

namespace kvant {

struct Exec;

/// y = a + b. y may be a or b.
void add(const Exec& exec, TensorView a, TensorView b, TensorView y);
/// y += x.
void accumulate(const Exec& exec, TensorView x, TensorView y);
/// y = x, rounded to y's type (to nearest even).
void copy(const Exec& exec, TensorView x, TensorView y);
/// y = value; also for int32, where the value must be an integer.
void fill(const Exec& exec, TensorView y, float value);
/// y *= factor.
void scale_inplace(const Exec& exec, TensorView y, float factor);

}  // namespace kvant
