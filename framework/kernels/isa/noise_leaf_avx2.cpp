// Philox4x32-10 (base/rng.hpp) on four counters a register, each word in the low half of a 64-bit lane, where the
// multiplication looks for it; high halves hold rubbish until the words are put together. Three registers go side by
// side, since a round is a chain of ten cycles.
#include "kernels/isa/noise_leaf.hpp"

#include <immintrin.h>

namespace {

constexpr int groups = 3;

struct Words {
  __m256i c0, c1, c2, c3;
};

__m256 noise(bool low_bit, __m256i word) {
  const __m256 half = _mm256_set1_ps(0.5f);
  if (low_bit) {
    const __m256 high = _mm256_cvtepi32_ps(_mm256_srli_epi32(word, 24));
    const __m256 odd = _mm256_add_ps(_mm256_add_ps(high, high), _mm256_set1_ps(1.0f));
    return _mm256_sub_ps(_mm256_mul_ps(odd, _mm256_set1_ps(0x1p-9f)), half);
  }
  return _mm256_sub_ps(_mm256_mul_ps(_mm256_cvtepi32_ps(_mm256_srli_epi32(word, 9)), _mm256_set1_ps(0x1p-23f)), half);
}

/// The 16 elements of four blocks, in order.
void store(bool low_bit, const Words& w, float* out) {
  const __m256i low = _mm256_blend_epi32(w.c0, _mm256_slli_epi64(w.c1, 32), 0xaa);   // words 0, 1 of blocks 0 1 | 2 3
  const __m256i high = _mm256_blend_epi32(w.c2, _mm256_slli_epi64(w.c3, 32), 0xaa);  // words 2, 3
  const __m256i even = _mm256_unpacklo_epi64(low, high), odd = _mm256_unpackhi_epi64(low, high);  // blocks 0 | 2, 1 | 3
  _mm256_storeu_ps(out, noise(low_bit, _mm256_permute2x128_si256(even, odd, 0x20)));
  _mm256_storeu_ps(out + 8, noise(low_bit, _mm256_permute2x128_si256(even, odd, 0x31)));
}

/// 48 elements from block `block` on.
void three(bool low_bit, uint64_t seed, uint64_t stream, uint64_t block, float* out) {
  const __m256i m0 = _mm256_set1_epi64x(0xD2511F53), m1 = _mm256_set1_epi64x(0xCD9E8D57);
  __m256i k0 = _mm256_set1_epi64x(static_cast<int64_t>(seed & 0xffffffffu)), k1 = _mm256_set1_epi64x(static_cast<int64_t>(seed >> 32));
  Words w[groups];
#pragma GCC unroll 3
  for (int g = 0; g < groups; ++g) {
    const __m256i index = _mm256_add_epi64(_mm256_set1_epi64x(static_cast<int64_t>(block + 4u * static_cast<unsigned>(g))), _mm256_set_epi64x(3, 2, 1, 0));
    w[g] = {index, _mm256_srli_epi64(index, 32), _mm256_set1_epi64x(static_cast<int64_t>(stream)), _mm256_set1_epi64x(static_cast<int64_t>(stream >> 32))};
  }
  for (int round = 0; round < 10; ++round) {
#pragma GCC unroll 3
    for (int g = 0; g < groups; ++g) {
      const __m256i p0 = _mm256_mul_epu32(w[g].c0, m0), p1 = _mm256_mul_epu32(w[g].c2, m1);
      w[g].c0 = _mm256_xor_si256(_mm256_xor_si256(_mm256_srli_epi64(p1, 32), w[g].c1), k0);
      w[g].c1 = p1;
      w[g].c2 = _mm256_xor_si256(_mm256_xor_si256(_mm256_srli_epi64(p0, 32), w[g].c3), k1);
      w[g].c3 = p0;
    }
    k0 = _mm256_add_epi32(k0, _mm256_set1_epi64x(0x9E3779B9));
    k1 = _mm256_add_epi32(k1, _mm256_set1_epi64x(0xBB67AE85));
  }
#pragma GCC unroll 3
  for (int g = 0; g < groups; ++g) store(low_bit, w[g], out + 16 * g);
}

}  // namespace

namespace kvant::isa {

void noise_avx2(bool low_bit, uint64_t seed, uint64_t stream, uint64_t first, int64_t n, float* out) {
  const int64_t head = n < static_cast<int64_t>((4 - first % 4) % 4) ? n : static_cast<int64_t>((4 - first % 4) % 4);
  noise_portable(low_bit, seed, stream, first, head, out);
  int64_t i = head;
  for (; i + 16 * groups <= n; i += 16 * groups) three(low_bit, seed, stream, (first + static_cast<uint64_t>(i)) / 4, out + i);
  if (i >= n) return;
  float rest[16 * groups];
  three(low_bit, seed, stream, (first + static_cast<uint64_t>(i)) / 4, rest);
  for (int64_t k = 0; i < n; ++i, ++k) out[i] = rest[k];
}

}  // namespace kvant::isa
