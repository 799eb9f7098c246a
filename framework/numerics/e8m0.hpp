// E8M0: the powers of two from 2^-127 to 2^127, code = exponent + 127, 0xff is NaN; no sign, no zero, no infinity (OCP
// Microscaling Formats 1.0). A format of scales.
#pragma once

#include "numerics/format.hpp"

namespace kvant {

struct E8M0 {
  using storage = uint8_t;
  static constexpr int code_bits = 8;
  static constexpr Overflow overflow = Overflow::saturate;
  static constexpr float lowest = 0x1p-127f, max_finite = 0x1p127f, reference_bound = 0x1p127f;
  static constexpr storage nan_code = 0xff, largest_code = 0xfe;

  /// The nearest power of two by value; midway (1.5·2^n) the even code. Below 2^-127, zero included: 2^-127. Negative
  /// values and NaN: NaN.
  KVANT_FUNCTION static constexpr storage encode(float v) {
    const uint32_t bits = bits_of(v);
    if (is_nan_bits(bits & 0x7fffffffu) || (bits >> 31 != 0 && bits != 0x80000000u)) return nan_code;
    const uint32_t magnitude = bits & 0x7fffffffu;
    if (magnitude <= 0x00600000u) return 0;  // 0.75·2^-126, midway between 2^-127 and 2^-126: to the even code
    if (magnitude < 0x00800000u) return 1;
    const uint32_t field = magnitude >> 23, fraction = magnitude & 0x7fffffu;
    const uint32_t code = field + (fraction > 0x400000u || (fraction == 0x400000u && (field & 1u) != 0) ? 1u : 0u);
    return static_cast<storage>(code > largest_code ? largest_code : code);
  }
  KVANT_FUNCTION static constexpr float decode(storage code) {
    if (code == nan_code) return float_of(0x7fc00000u);
    return code == 0 ? float_of(0x00400000u) : float_of(static_cast<uint32_t>(code) << 23);
  }
};

/// The power of two not above / not below a positive finite normal v (2^127 at most).
KVANT_FUNCTION constexpr float power_of_two_below(float v) { return float_of(bits_of(v) & infinity_bits); }
KVANT_FUNCTION constexpr float power_of_two_above(float v) {
  const uint32_t bits = bits_of(v), below = bits & infinity_bits;
  const uint32_t raised = below + (bits == below ? 0u : 0x00800000u);
  return float_of(raised < infinity_bits ? raised : bits_of(0x1p127f));
}

}  // namespace kvant
