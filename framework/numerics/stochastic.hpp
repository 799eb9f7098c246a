// Stochastic rounding of any format: by the format's own encode_noisy where it has one, else by looking for the neighbouring code.
#pragma once

#include "numerics/format.hpp"

namespace kvant {

/// A format that rounds with noise by itself: encode_noisy(v, noise) moves v by `noise` of the step between the two codes around it
/// and rounds to nearest.
template <class F>
concept HasNoisy = requires(float v) { F::encode_noisy(v, v); };

namespace stochastic_detail {

/// v lies between the values of `near`, the nearest code, and of another one. The far one is found from encode and decode alone:
/// the first code that differs while v is moved away from `near`'s value, first by doubling, then by halving back, so that the
/// code right behind the midpoint is met and none beyond it.
template <NumericFormat F>
KVANT_FUNCTION constexpr typename F::storage far_code(float v, float value, typename F::storage near) {
  float from = v, to = v + (v - value);
  for (int i = 0; i < 64 && F::encode(to) == near; ++i) {
    const float next = v + 2.0f * (to - v);
    from = to;
    to = next;
  }
  for (int i = 0; i < 24; ++i) {
    const float middle = from + 0.5f * (to - from);
    if (F::encode(middle) == near) from = middle;
    else to = middle;
  }
  return F::encode(to);
}

template <NumericFormat F>
KVANT_FUNCTION constexpr typename F::storage by_neighbours(float v, float noise) {
  const typename F::storage near = F::encode(v);
  const float value = F::decode(near);
  if (v == value || magnitude_bits(v) >= bits_of(static_cast<float>(F::max_finite)) || is_nan_bits(magnitude_bits(value))) return near;
  const typename F::storage far = far_code<F>(v, value, near);
  const float step = F::decode(far) - value;
  // (v - value) / step is at most 1/2; the other code is taken where the noise lifts it above that.
  return (v - value) / step + noise >= 0.5f ? far : near;
}

}  // namespace stochastic_detail

/// `noise` in [-1/2, 1/2): the code above or below with the probability that makes the mean exact. Magnitudes beyond the range saturate.
template <NumericFormat F>
KVANT_FUNCTION constexpr typename F::storage encode_with_noise(float v, float noise) {
  if constexpr (HasNoisy<F>) return F::encode_noisy(v, noise);
  else return stochastic_detail::by_neighbours<F>(v, noise);
}

}  // namespace kvant
