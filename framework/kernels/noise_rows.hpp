// Numbers of rows for stochastic rounding where rows share their noise, as they may in the reference: noise is a function of an
// element's number, so rows that are given one number draw the same.
#pragma once

#include "tensor/tensor.hpp"

#include <cstdint>

namespace kvant {

struct Exec;

/// numbers (i32 [R]) of rows that are sequences of `sequence` positions each, one after the other: r where noise differs by both,
/// r / sequence or r % sequence where it differs by one of them, 0 where all rows share it.
void noise_rows(const Exec& exec, int64_t sequence, bool by_sequence, bool by_position, const TensorView& numbers);

}  // namespace kvant
