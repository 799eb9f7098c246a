// What a number format is: the storage of one code and the two pure functions between codes and floats. A format of a
// plugin's own is a struct like these, and nothing else (docs/plugins.md).
#pragma once

#include "numerics/bits.hpp"

#include <concepts>
#include <type_traits>

namespace kvant {

/// storage      integer type that holds one code (one byte wherever the format allows it)
/// max_finite   largest finite magnitude: what the largest entry of a scaled tensor is mapped to
/// encode       nearest code, ties to even; beyond the range the largest code of that sign (saturating), infinities
/// included;
///              NaN becomes the format's NaN, or 0 where there is none (a quantizer then poisons the scale,
///              kernels/quantize_kernel.hpp)
/// decode       the exact value of a code
/// A format may have more, and Kvant's own do:
/// encode_in_range   need not clamp: the value is known to round to a finite code
/// encode_noisy      (v, noise): stochastic rounding, v is moved by noise · the step between its two neighbouring codes
/// lowest            the lowest value, where it is not -max_finite
/// reference_bound   what the reference library maps the largest entry to, where it is not max_finite
/// code_bits         bits of a code, where they are fewer than storage has
/// overflow          what encode does beyond the range; saturate, or there is a reason
template <class F>
concept NumericFormat = std::integral<typename F::storage> && requires(float v, typename F::storage code) {
  { F::max_finite } -> std::convertible_to<float>;
  { F::encode(v) } -> std::same_as<typename F::storage>;
  { F::decode(code) } -> std::same_as<float>;
};

/// What a conversion does with a value that rounds to more than the largest finite code (rounding comes first, then
/// this).
enum class Overflow : uint8_t {
  saturate,      ///< the largest finite code of that sign; what every quantizer here uses
  to_non_finite  ///< infinity where the format has one, otherwise NaN
};

}  // namespace kvant
