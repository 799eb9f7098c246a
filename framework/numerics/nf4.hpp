// NF4: sixteen levels at the quantiles of a normal distribution, scaled to [-1, 1] (QLoRA, Dettmers et al. 2023,
// appendix E). A code is the index of a level; 0 is level 7. No arithmetic runs on such codes.
#pragma once

#include "numerics/format.hpp"

namespace kvant {

struct Nf4 {
  using storage = uint8_t;
  static constexpr int code_bits = 4;
  static constexpr Overflow overflow = Overflow::saturate;
  static constexpr float lowest = -1, max_finite = 1, reference_bound = 1;

  KVANT_FUNCTION static constexpr float level(int index) {
    constexpr float levels[16] = {
        -1.0f,         -0.696192801f, -0.525073051f, -0.394917488f, -0.284441382f, -0.18477343f, -0.0910500363f, 0.0f,
        0.0795802996f, 0.160930201f,  0.246112302f,  0.337915242f,  0.440709829f,  0.562617004f, 0.722956836f,   1.0f};
    return levels[index];
  }

  /// The nearest level by the float32 distance, ties to the lower index; beyond [-1, 1] the end; NaN: 0.
  KVANT_FUNCTION static constexpr storage encode(float v) {
    if (v > 1.0f) return 15;
    return encode_as_reference(v);
  }
  /// Without the clamp: the distances to a huge value are all equal and the lowest index wins, as in the reference.
  KVANT_FUNCTION static constexpr storage encode_as_reference(float v) {
    int best = 0;
    float distance = size(v - level(0));
    for (int i = 1; i < 16; ++i) {
      const float d = size(v - level(i));
      if (d < distance) {
        best = i;
        distance = d;
      }
    }
    return static_cast<storage>(best);
  }
  /// Stochastic rounding: moved by `noise` of the step between the two neighbouring levels, -1/2 <= noise <= 1/2.
  KVANT_FUNCTION static constexpr storage encode_noisy(float v, float noise) {
    if (!(v > -1.0f)) return 0;
    if (v >= 1.0f) return 15;
    int below = 0;
    while (below < 14 && level(below + 1) <= v) ++below;
    const float fraction = (v - level(below)) / (level(below + 1) - level(below));
    return static_cast<storage>(fraction + noise >= 0.5f ? below + 1 : below);
  }
  KVANT_FUNCTION static constexpr float decode(storage code) { return level(code & 15); }

 private:
  KVANT_FUNCTION static constexpr float size(float v) { return float_of(magnitude_bits(v)); }
};

}  // namespace kvant
