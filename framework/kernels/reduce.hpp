// Reductions of whole tensors into execution memory (never into a host scalar: that would wait for the device). Sums in
// double, over fixed chunks that are combined in order: the same bits for any number of threads. x float32 or bfloat16
// of any shape (rows may be strided); out float32 [1].
#pragma once

#include "tensor/arena.hpp"
#include "tensor/tensor.hpp"

namespace kvant {

struct Exec;

void sum(const Exec& exec, TensorView x, TensorView out, Arena& workspace);
void sum_squares(const Exec& exec, TensorView x, TensorView out, Arena& workspace);
/// max |x|, 0 for an empty tensor, NaN if any element is NaN.
void absmax(const Exec& exec, TensorView x, TensorView out, Arena& workspace);
/// max x, -inf for an empty tensor, NaN if any element is NaN.
void maximum(const Exec& exec, TensorView x, TensorView out, Arena& workspace);
/// count [1] int32 += number of elements that are NaN or infinite.
void count_nonfinite(const Exec& exec, TensorView x, TensorView count);

/// sum_squares [1] -> norm [1] = sqrt, factor [1] = min(1, max_norm / norm); max_norm = 0 clips nothing (factor 1).
/// A norm that is not finite gives factor 0 (nothing is changed by a step that the caller is about to stop).
void clip_factor(const Exec& exec, TensorView sum_of_squares, float max_norm, TensorView norm, TensorView factor);

}  // namespace kvant
