// Room numerics: number formats, rounding and packing as pure functions of one value (no tensors, no kernels), for host
// and device. This header: the bits of a float, in a spelling that device compilers accept too.
#pragma once

#include "base/rng.hpp"  // KVANT_FUNCTION

#include <cstdint>

namespace kvant {

KVANT_FUNCTION constexpr uint32_t bits_of(float v) { return __builtin_bit_cast(uint32_t, v); }
KVANT_FUNCTION constexpr float float_of(uint32_t bits) { return __builtin_bit_cast(float, bits); }

/// Bits of |v|. They order like the magnitudes (NaN above infinity above every finite number), so an integer maximum of
/// them is a maximum that no NaN can hide from and that does not depend on the order of its operands.
KVANT_FUNCTION constexpr uint32_t magnitude_bits(float v) { return bits_of(v) & 0x7fffffffu; }

inline constexpr uint32_t infinity_bits = 0x7f800000u;

KVANT_FUNCTION constexpr bool is_nan_bits(uint32_t magnitude) { return magnitude > infinity_bits; }

/// `yes` where the condition holds, else `no`: without a branch, so that the compiler neither sinks the computation of
/// one side into a branch nor gives up on vector code for it (a conditional expression does both when floating-point
/// traps are allowed for).
KVANT_FUNCTION constexpr uint32_t select(bool condition, uint32_t yes, uint32_t no) {
  const uint32_t mask = 0u - static_cast<uint32_t>(condition);
  return no ^ ((no ^ yes) & mask);
}

/// 2^exponent for -126 <= exponent <= 127.
constexpr float power_of_two(int exponent) { return float_of(static_cast<uint32_t>(exponent + 127) << 23); }

}  // namespace kvant
