#include "kernels/isa/peak_probe.hpp"

#include <immintrin.h>

namespace kvant::isa {

// Twelve sums: enough to hide the latency of an instruction, and registers are left for its operands. The empty assembly
// keeps the compiler from folding rounds together.
int64_t float_peak_avx2(int64_t rounds) {
  __m256 acc[12];
#pragma GCC unroll 12
  for (int i = 0; i < 12; ++i) acc[i] = _mm256_set1_ps(0.1f * static_cast<float>(i + 1));
  const __m256 a = _mm256_setr_ps(0.31f, 0.62f, 0.13f, 0.74f, 0.45f, 0.96f, 0.57f, 0.28f), b = _mm256_set1_ps(0.37f);
  for (int64_t r = 0; r < rounds; ++r) {
#pragma GCC unroll 12
    for (int i = 0; i < 12; ++i) acc[i] = _mm256_fmadd_ps(acc[i], a, b);
#pragma GCC unroll 12
    for (int i = 0; i < 12; ++i) asm volatile("" : "+x"(acc[i]));
  }
  return 12 * 8 * 2;
}

int64_t int8_peak_avx2(int64_t rounds) {
  __m256i acc[12];
#pragma GCC unroll 12
  for (int i = 0; i < 12; ++i) acc[i] = _mm256_set1_epi32(i);
  __m256i a = _mm256_set1_epi32(0x00250013);
  const __m256i b = _mm256_set1_epi32(0x0047ffb5);
  for (int64_t r = 0; r < rounds; ++r) {
#pragma GCC unroll 12
    for (int i = 0; i < 12; ++i) {
      asm volatile("" : "+x"(a));  // as if it were another operand: the product is not computed once for all
      acc[i] = _mm256_add_epi32(acc[i], _mm256_madd_epi16(a, b));
    }
#pragma GCC unroll 12
    for (int i = 0; i < 12; ++i) asm volatile("" : "+x"(acc[i]));
  }
  return 12 * 16 * 2;
}

}  // namespace kvant::isa
