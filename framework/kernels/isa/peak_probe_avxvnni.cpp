#include "kernels/isa/peak_probe.hpp"

#include <immintrin.h>

namespace kvant::isa {

int64_t int8_peak_avxvnni(int64_t rounds) {
  __m256i acc[12];
#pragma GCC unroll 12
  for (int i = 0; i < 12; ++i) acc[i] = _mm256_set1_epi32(i);
  const __m256i a = _mm256_set1_epi32(0x25137f41), b = _mm256_set1_epi32(0x47b580d3);
  for (int64_t r = 0; r < rounds; ++r) {
#pragma GCC unroll 12
    for (int i = 0; i < 12; ++i) asm volatile("%{vex%} vpdpbusd %2, %1, %0" : "+x"(acc[i]) : "x"(a), "x"(b));
  }
  return 12 * 32 * 2;
}

}  // namespace kvant::isa
