// The 16-point Hadamard transform of a matrix along one of its axes: 16 elements at a time become (1/4) · H16 · (signs ·
// elements), H16 the Sylvester matrix of ±1. The transform is orthogonal: applied to both operands of a product along the
// contracted axis it changes nothing but the rounding, and an outlier is spread over 16 places.
#pragma once

#include "tensor/tensor.hpp"

#include <cstdint>

namespace kvant {

struct Exec;

inline constexpr int64_t hadamard_length = 16;

/// 16 signs, one bit each (1: minus), a pure function of (seed, stream): the same for every block of both operands.
uint32_t hadamard_signs(uint64_t seed, uint64_t stream);

/// y (f32 [R,C], dense) = transform of x (f32 or bf16 [R,C], rows may be strided) along axis 0 or 1, whose length is a
/// multiple of 16. y may be x where x is dense f32.
void hadamard16(const Exec& exec, const TensorView& x, int axis, uint32_t signs, const TensorView& y);

}  // namespace kvant
