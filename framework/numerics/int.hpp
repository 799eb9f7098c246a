// Signed integers of 2 to 16 bits as number formats: value = code. Range [-2^(bits-1), 2^(bits-1) - 1], both ends used.
#pragma once

#include "numerics/format.hpp"

namespace kvant {

template <int bits>
struct Int {
  static_assert(bits >= 2 && bits <= 16);
  using storage = std::conditional_t<(bits <= 8), int8_t, int16_t>;

  static constexpr float lowest = -static_cast<float>(1 << (bits - 1));
  static constexpr float max_finite = static_cast<float>((1 << (bits - 1)) - 1);
  /// Half a step beyond the largest code: the bound that the reference scales to, so that both end codes have a full
  /// bucket. It puts the largest entry of every row on a rounding tie, which is why it is not the default
  /// (docs/numerics.md).
  static constexpr float half_step_bound = max_finite + 0.5f;

  KVANT_FUNCTION static constexpr storage encode(float v) {
    // The ends are integers, so clamping before rounding gives the same code as after it; magnitudes are clamped as
    // bits, which a NaN passes without a trap. Adding 1.5·2^23 leaves the integer nearest to v, ties to even, in the
    // low bits of the sum.
    const uint32_t sign = bits_of(v) >> 31;
    const uint32_t magnitude = magnitude_bits(v);
    const uint32_t limit = bits_of(max_finite) + sign * (bits_of(-lowest) - bits_of(max_finite));
    const uint32_t clamped = magnitude < limit ? magnitude : limit;
    const uint32_t code = bits_of(float_of(clamped | sign << 31) + 12582912.0f) - 0x4B400000u;
    return static_cast<storage>(static_cast<int32_t>(select(is_nan_bits(magnitude), 0, code)));
  }
  /// The same for a value that is known to round into the range: the low bits are the code, nothing is clamped.
  KVANT_FUNCTION static constexpr storage encode_in_range(float v) {
    return static_cast<storage>(bits_of(v + 12582912.0f));
  }
  KVANT_FUNCTION static constexpr float decode(storage code) { return static_cast<float>(code); }
};

}  // namespace kvant
