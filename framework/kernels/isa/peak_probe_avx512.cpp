#include "kernels/isa/peak_probe.hpp"

#include <immintrin.h>

namespace kvant::isa {

int64_t float_peak_avx512(int64_t rounds) {
  __m512 acc[24];
#pragma GCC unroll 24
  for (int i = 0; i < 24; ++i) acc[i] = _mm512_set1_ps(0.1f * static_cast<float>(i + 1));
  const __m512 a = _mm512_set_ps(0.31f, 0.62f, 0.13f, 0.74f, 0.45f, 0.96f, 0.57f, 0.28f, 0.39f, 0.11f, 0.82f, 0.53f, 0.64f, 0.25f, 0.76f, 0.97f);
  const __m512 b = _mm512_set1_ps(0.37f);
  for (int64_t r = 0; r < rounds; ++r) {
#pragma GCC unroll 24
    for (int i = 0; i < 24; ++i) acc[i] = _mm512_fmadd_ps(acc[i], a, b);
#pragma GCC unroll 24
    for (int i = 0; i < 24; ++i) asm volatile("" : "+v"(acc[i]));
  }
  return 24 * 16 * 2;
}

}  // namespace kvant::isa
