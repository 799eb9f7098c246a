// Noise of stochastic rounding. One law for every rounded store: a pure function of (seed, stream, element), the stream
// of what is rounded, the optimizer's step and the micro-batch. Nothing is carried from one draw to the next, so a
// resumed run, another number of ranks or threads, and another order of rows draw the same noise.
#pragma once

#include "base/rng.hpp"

namespace kvant {

enum class Rounding : uint8_t {
  nearest,          ///< ties to even
  uniform,          ///< noise k·2^-23 - 1/2, k in [0, 2^23): -1/2 included, 1/2 not
  low_bit_uniform,  ///< noise (2r + 1)/512 - 1/2, r in [0, 256): symmetric, of mean exactly 0, never 0
};

/// The stream of one rounded tensor: `purpose` names what is rounded and where (stream_of of "gradient for dx" and the
/// site's path, say).
KVANT_FUNCTION constexpr uint64_t noise_stream(uint64_t purpose, uint64_t step, uint64_t micro_batch) {
  uint64_t h = purpose;
  for (const uint64_t part : {step, micro_batch}) {  // the finaliser of splitmix64 after each part
    h += part + 0x9e3779b97f4a7c15ull;
    h = (h ^ (h >> 30)) * 0xbf58476d1ce4e5b9ull;
    h = (h ^ (h >> 27)) * 0x94d049bb133111ebull;
    h ^= h >> 31;
  }
  return h;
}

KVANT_FUNCTION constexpr float noise_of(Rounding rounding, uint32_t word) {
  return rounding == Rounding::low_bit_uniform ? (static_cast<float>(word >> 24) * 2.0f + 1.0f) * 0x1p-9f - 0.5f
                                               : static_cast<float>(word >> 9) * 0x1p-23f - 0.5f;
}

/// Noise of one element. Four neighbours share a block of the generator: whoever rounds a row draws one block for four.
KVANT_FUNCTION inline float noise_of(Rounding rounding, uint64_t seed, uint64_t stream, uint64_t element) {
  return noise_of(rounding, philox(seed, stream, element / 4).word[element % 4]);
}

}  // namespace kvant
