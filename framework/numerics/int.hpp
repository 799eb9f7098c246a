// Integers of 2 to 16 bits as number formats: value = code. Int: range [-2^(bits-1), 2^(bits-1) - 1]; UInt: [0, 2^bits
// - 1]; both ends used. Narrow ones are stored one to a byte (packing.hpp stores 2 and 4 bits densely).
#pragma once

#include "numerics/format.hpp"

namespace kvant {
namespace numerics_detail {

/// Adding 1.5·2^23 leaves the integer nearest to v, ties to even, in the low bits of the sum.
inline constexpr float integer_magic = 12582912.0f;
inline constexpr uint32_t integer_magic_bits = 0x4B400000u;

}  // namespace numerics_detail

template <int bits>
struct Int {
  static_assert(bits >= 2 && bits <= 16);
  using storage = std::conditional_t<(bits <= 8), int8_t, int16_t>;
  static constexpr int code_bits = bits;
  static constexpr Overflow overflow = Overflow::saturate;

  static constexpr float lowest = -static_cast<float>(1 << (bits - 1));
  static constexpr float max_finite = static_cast<float>((1 << (bits - 1)) - 1);
  /// The magnitude that the reference maps to the range: half a step beyond the largest code, so that both end codes
  /// have a full bucket (16 bits: a whole step). It puts the largest entry of every row on a rounding tie, which is why
  /// it is not the default (docs/numerics.md).
  static constexpr float reference_bound = max_finite + (bits == 16 ? 1.0f : 0.5f);

  KVANT_FUNCTION static constexpr storage encode(float v) {
    // The ends are integers, so clamping before rounding gives the same code as after it; magnitudes are clamped as
    // bits, which a NaN passes without a trap.
    const uint32_t sign = bits_of(v) >> 31;
    const uint32_t magnitude = magnitude_bits(v);
    const uint32_t limit = bits_of(max_finite) + sign * (bits_of(-lowest) - bits_of(max_finite));
    const uint32_t clamped = magnitude < limit ? magnitude : limit;
    const uint32_t code =
        bits_of(float_of(clamped | sign << 31) + numerics_detail::integer_magic) - numerics_detail::integer_magic_bits;
    return static_cast<storage>(static_cast<int32_t>(select(is_nan_bits(magnitude), 0, code)));
  }
  /// The same for a value that is known to round into the range: the low bits are the code, nothing is clamped.
  KVANT_FUNCTION static constexpr storage encode_in_range(float v) {
    return static_cast<storage>(bits_of(v + numerics_detail::integer_magic));
  }
  /// Stochastic rounding: v is moved by `noise` steps, -1/2 <= noise <= 1/2, then rounded.
  KVANT_FUNCTION static constexpr storage encode_noisy(float v, float noise) { return encode(v + noise); }
  KVANT_FUNCTION static constexpr float decode(storage code) { return static_cast<float>(code); }
};

template <int bits>
struct UInt {
  static_assert(bits >= 2 && bits <= 16);
  using storage = std::conditional_t<(bits <= 8), uint8_t, uint16_t>;
  static constexpr int code_bits = bits;
  static constexpr Overflow overflow = Overflow::saturate;

  static constexpr float lowest = 0;
  static constexpr float max_finite = static_cast<float>((1 << bits) - 1);
  static constexpr float reference_bound = max_finite + 0.5f;  ///< see Int

  /// Negative values become 0.
  KVANT_FUNCTION static constexpr storage encode(float v) {
    const uint32_t magnitude = magnitude_bits(v);
    const uint32_t limit = select((bits_of(v) >> 31) != 0, 0, bits_of(max_finite));
    const uint32_t clamped = magnitude < limit ? magnitude : limit;
    const uint32_t code =
        bits_of(float_of(clamped) + numerics_detail::integer_magic) - numerics_detail::integer_magic_bits;
    return static_cast<storage>(select(is_nan_bits(magnitude), 0, code));
  }
  KVANT_FUNCTION static constexpr storage encode_noisy(float v, float noise) { return encode(v + noise); }
  KVANT_FUNCTION static constexpr float decode(storage code) { return static_cast<float>(code); }
};

}  // namespace kvant
