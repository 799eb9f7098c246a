// Token embedding: rows of a table, and the sum of their gradients in the order of the tokens.
// ids int32 [T], table and dtable float32 [V,D], y and dy [T,D] float32 or bfloat16.
#pragma once

#include "tensor/tensor.hpp"

namespace kvant {

struct Exec;

/// y[t] = table[ids[t]], rounded to y's type. An id outside [0, V) adds 1 to bad_ids [1] int32 and gives a row of
/// zeros.
void embedding_forward(const Exec& exec, TensorView ids, TensorView table, TensorView y, TensorView bad_ids);

/// dtable[ids[t]] += dy[t]: each element is summed by one thread in the order of t. Ids outside [0, V) are left out
/// (forward counted them).
void embedding_backward(const Exec& exec, TensorView ids, TensorView dy, TensorView dtable);

}  // namespace kvant
