// Groups of rows moved apart so that each begins at a multiple of `unit` rows and is filled up with zeros: what a scheme
// needs whose blocks lie along the tokens of an expert. Zeros add nothing to a sum and raise no maximum, so padding changes
// no result.
#pragma once

#include "tensor/tensor.hpp"

#include <cstdint>

namespace kvant {

struct Exec;

/// Rows that `rows` rows in `groups` groups take at most, a multiple of `unit`.
int64_t padded_rows(int64_t rows, int64_t groups, int64_t unit);

/// offsets i32 [G+1] -> padded i32 [G+1]: padded[0] = 0, group g takes its rows rounded up to a multiple of `unit`.
void pad_offsets(const Exec& exec, const TensorView& offsets, int64_t unit, const TensorView& padded);

/// to[padded[g] + i] = from[offsets[g] + i]; every other row of `to` is zero. from [R,C] f32, bf16 or i32 (rows may be
/// strided), or [R] i32; `to` of the same type, or f32 from bf16; dense.
void pad_groups(const Exec& exec, const TensorView& from, const TensorView& offsets, const TensorView& padded,
                const TensorView& to);

}  // namespace kvant
