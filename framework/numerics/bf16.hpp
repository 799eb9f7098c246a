// bfloat16 <-> float. Storage only: arithmetic is in float. Rounding is to nearest, ties to even; infinities stay,
// overflow becomes infinity as IEEE has it, NaN stays a (quiet) NaN of the same sign, subnormals are kept.
#pragma once

#include "base/bf16_type.hpp"
#include "numerics/bits.hpp"

namespace kvant {

KVANT_FUNCTION constexpr float to_float(float v) { return v; }
KVANT_FUNCTION constexpr float to_float(bf16_t v) { return float_of(static_cast<uint32_t>(v.bits) << 16); }

KVANT_FUNCTION constexpr bf16_t to_bf16(float v) {
  const uint32_t u = bits_of(v);
  const uint32_t rounded = (u + 0x7fffu + ((u >> 16) & 1u)) >> 16;
  const uint32_t quiet = (u >> 16) | 0x40u;
  return {static_cast<uint16_t>(is_nan_bits(u & 0x7fffffffu) ? quiet : rounded)};
}

/// Rounds to the storage type T, so that a kernel template reads the same for both.
template <class T>
KVANT_FUNCTION constexpr T from_float(float v);
template <>
KVANT_FUNCTION constexpr float from_float<float>(float v) {
  return v;
}
template <>
KVANT_FUNCTION constexpr bf16_t from_float<bf16_t>(float v) {
  return to_bf16(v);
}

}  // namespace kvant
