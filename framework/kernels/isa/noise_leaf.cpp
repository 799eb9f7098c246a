#include "kernels/isa/noise_leaf.hpp"

#include "numerics/noise.hpp"

namespace kvant {

NoiseLeaf noise_leaf([[maybe_unused]] Isa isa) {
#if defined(__x86_64__)
  if (isa != Isa::portable) return isa::noise_avx2;  // every other one includes AVX2
#endif
  return isa::noise_portable;
}

NoiseLeaf noise_leaf() { return noise_leaf(chosen_isa()); }

void isa::noise_portable(bool low_bit, uint64_t seed, uint64_t stream, uint64_t first, int64_t n, float* out) {
  const Rounding rounding = low_bit ? Rounding::low_bit_uniform : Rounding::uniform;
  for (int64_t i = 0; i < n;) {
    const uint64_t element = first + static_cast<uint64_t>(i);
    const Random4 block = philox(seed, stream, element / 4);
    for (uint64_t k = element % 4; k < 4 && i < n; ++k, ++i) out[i] = noise_of(rounding, block.word[k]);
  }
}

}  // namespace kvant
