// bfloat16 <-> float32, bit exact: widening is a shift, narrowing rounds to nearest, ties to even; overflow gives infinity
// as IEEE 754 says, NaN stays NaN (made quiet, sign and upper payload kept).
#pragma once

#include "base/rng.hpp"  // KVANT_FUNCTION
#include "tensor/dtype.hpp"

#include <cstdint>

namespace kvant {

KVANT_FUNCTION inline float to_float(bf16_t x) { return __builtin_bit_cast(float, static_cast<uint32_t>(x.bits) << 16); }
KVANT_FUNCTION inline float to_float(float x) { return x; }

KVANT_FUNCTION inline bf16_t to_bf16(float x) {
  const uint32_t bits = __builtin_bit_cast(uint32_t, x);
  const uint32_t rounded = (bits + 0x7fffu + ((bits >> 16) & 1u)) >> 16;
  const uint32_t quiet_nan = (bits >> 16) | 0x40u;
  const bool nan = (bits & 0x7fffffffu) > 0x7f800000u;
  return {static_cast<uint16_t>(nan ? quiet_nan : rounded)};
}

/// from_float<T>(x): x as it is stored in T. Overloads rather than a switch, so that kernels can be generic in T.
template <class T>
KVANT_FUNCTION T from_float(float x);
template <>
KVANT_FUNCTION inline float from_float<float>(float x) {
  return x;
}
template <>
KVANT_FUNCTION inline bf16_t from_float<bf16_t>(float x) {
  return to_bf16(x);
}

}  // namespace kvant
