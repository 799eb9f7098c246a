// Small binary floats by exponent width, mantissa width and variant. One template covers the OCP and the FNUZ fp8
// formats, fp4 and f16; the variant is part of the type, so that two readings of the same bits can never be mixed by
// accident.
#pragma once

#include "numerics/format.hpp"

namespace kvant {

enum class FloatVariant : uint8_t {
  ieee,    ///< largest exponent: infinities and NaN (e5m2, e4m3, e3m4, f16)
  fn,      ///< finite, NaN is the all-ones code of either sign (e4m3fn)
  fnuz,    ///< finite, no negative zero: its code is the only NaN (AMD's e4m3fnuz, e5m2fnuz)
  finite,  ///< finite, no NaN at all (e2m1)
};

/// The bias is 2^(exponent-1) - 1, one more for fnuz, unless a format says otherwise (e4m3b11fnuz: 11).
constexpr int default_bias(int exponent, FloatVariant variant) {
  return (1 << (exponent - 1)) - (variant == FloatVariant::fnuz ? 0 : 1);
}

template <int exponent, int mantissa, FloatVariant variant, int bias = default_bias(exponent, variant)>
struct Float {
  static constexpr int code_bits = 1 + exponent + mantissa;
  static_assert(mantissa >= 1 && code_bits <= 16 && bias >= 1 && bias + mantissa <= 125);
  /// What encode() does with a value that rounds to more than the largest code; encode_with() is told.
  static constexpr Overflow overflow = Overflow::saturate;
  using storage = std::conditional_t<(code_bits <= 8), uint8_t, uint16_t>;

  static constexpr uint32_t sign_code = 1u << (code_bits - 1);
  static constexpr uint32_t largest_code = variant == FloatVariant::ieee ? (((1u << exponent) - 1) << mantissa) - 1
                                           : variant == FloatVariant::fn ? sign_code - 2
                                                                         : sign_code - 1;
  static constexpr bool has_infinity = variant == FloatVariant::ieee;
  static constexpr bool has_nan = variant != FloatVariant::finite;
  /// Of a positive NaN; in fnuz the only one.
  static constexpr uint32_t nan_code = variant == FloatVariant::ieee   ? largest_code + 1 + (1u << (mantissa - 1))
                                       : variant == FloatVariant::fn   ? sign_code - 1
                                       : variant == FloatVariant::fnuz ? sign_code
                                                                       : 0;

  /// Code of a magnitude, nearest, ties to even; may lie beyond the largest one. Branch-free, so that loops over it
  /// become vector code.
  KVANT_FUNCTION static constexpr uint32_t round(uint32_t magnitude) {
    constexpr int shift = 23 - mantissa;
    constexpr float smallest_normal = power_of_two(1 - bias);
    // A float in whose binade one unit in the last place is the smallest subnormal: adding it rounds a subnormal in
    // hardware.
    constexpr float magic = power_of_two(1 - bias - mantissa + 23);
    const uint32_t normal = ((magnitude + ((1u << (shift - 1)) - 1) + ((magnitude >> shift) & 1u)) >> shift) -
                            (static_cast<uint32_t>(127 - bias) << mantissa);
    const uint32_t subnormal = bits_of(float_of(magnitude) + magic) - bits_of(magic);
    return select(magnitude < bits_of(smallest_normal), subnormal, normal);
  }
  KVANT_FUNCTION static constexpr storage with_sign(uint32_t code, float v) {
    const uint32_t sign = (bits_of(v) >> 31) << (code_bits - 1);
    if constexpr (variant == FloatVariant::fnuz)
      return static_cast<storage>(select(code == 0 || code == sign_code, code, code | sign));
    return static_cast<storage>(code | sign);
  }

  /// Rounded first, then the overflow mode.
  template <Overflow overflow>
  KVANT_FUNCTION static constexpr storage encode_with(float v) {
    constexpr uint32_t beyond = overflow == Overflow::saturate ? largest_code
                                : has_infinity                 ? largest_code + 1
                                                               : nan_code;
    const uint32_t magnitude = magnitude_bits(v);
    const uint32_t rounded = round(magnitude);
    const uint32_t finite = select(rounded > largest_code, beyond, rounded);
    return with_sign(select(is_nan_bits(magnitude), nan_code, finite), v);
  }
  KVANT_FUNCTION static constexpr storage encode(float v) { return encode_with<overflow>(v); }
  /// The same for a value that is known to round into the range.
  KVANT_FUNCTION static constexpr storage encode_in_range(float v) { return with_sign(round(magnitude_bits(v)), v); }

  /// Stochastic rounding: v is moved by `noise` of the step between its two neighbouring codes, -1/2 <= noise <= 1/2,
  /// then rounded to nearest. The bits of a float grow by the same amount from code to code, so moving them moves the
  /// value by a part of the step whatever the binade; subnormal codes are equally spaced values.
  KVANT_FUNCTION static constexpr storage encode_noisy(float v, float noise) {
    constexpr int shift = 23 - mantissa;
    constexpr float magic = 12582912.0f;
    const uint32_t magnitude = magnitude_bits(v);
    if (magnitude >= bits_of(max_finite)) return encode(v);
    const float along = float_of(bits_of(noise) ^ (bits_of(v) & 0x80000000u));  // towards larger magnitudes
    uint32_t code = 0;
    if (magnitude < bits_of(power_of_two(1 - bias))) {
      const float steps = float_of(magnitude) * power_of_two(bias + mantissa - 1) + along;
      code = bits_of((steps > 0.0f ? steps : 0.0f) + magic) - bits_of(magic);
    } else {
      code = round(magnitude + (bits_of(along * static_cast<float>(1 << shift) + magic) - bits_of(magic)));
    }
    return with_sign(code > largest_code ? largest_code : code, v);
  }

  KVANT_FUNCTION static constexpr float decode(storage code) {
    const uint32_t magnitude = code & (sign_code - 1);
    const uint32_t sign = (static_cast<uint32_t>(code) >> (code_bits - 1)) << 31;
    // Placed in a float's fields the code is the value times 2^(bias - 127); multiplying is exact, subnormal codes
    // included.
    const uint32_t value = bits_of(float_of(magnitude << (23 - mantissa)) * power_of_two(127 - bias));
    uint32_t special = value;
    if constexpr (variant == FloatVariant::ieee)
      special = magnitude > largest_code ? infinity_bits | (magnitude > largest_code + 1 ? 0x400000u : 0u) : value;
    else if constexpr (variant == FloatVariant::fn)
      special = magnitude > largest_code ? 0x7fc00000u : value;
    else if constexpr (variant == FloatVariant::fnuz)
      special = code == sign_code ? 0x7fc00000u : value;
    if constexpr (variant == FloatVariant::fnuz) return float_of(code == sign_code ? special : special | sign);
    return float_of(special | sign);
  }

  static constexpr float max_finite = [] {
    const int field = static_cast<int>(largest_code >> mantissa);
    const uint32_t fraction = largest_code & ((1u << mantissa) - 1);
    return float_of((static_cast<uint32_t>(field - bias + 127) << 23) | (fraction << (23 - mantissa)));
  }();
  static constexpr float lowest = -max_finite;
  static constexpr float reference_bound = max_finite;
};

using E4M3fn = Float<4, 3, FloatVariant::fn>;
using E5M2 = Float<5, 2, FloatVariant::ieee>;
using F16 = Float<5, 10, FloatVariant::ieee>;

}  // namespace kvant
