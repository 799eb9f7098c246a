#include "kernels/isa/peak_probe.hpp"

#include <immintrin.h>

namespace kvant::isa {

int64_t int8_peak_avx512vnni(int64_t rounds) {
  __m512i acc[24];
#pragma GCC unroll 24
  for (int i = 0; i < 24; ++i) acc[i] = _mm512_set1_epi32(i);
  const __m512i a = _mm512_set1_epi32(0x25137f41), b = _mm512_set1_epi32(0x47b580d3);
  for (int64_t r = 0; r < rounds; ++r) {
#pragma GCC unroll 24
    for (int i = 0; i < 24; ++i) asm volatile("vpdpbusd %2, %1, %0" : "+v"(acc[i]) : "v"(a), "v"(b));
  }
  return 24 * 64 * 2;
}

}  // namespace kvant::isa
