#include "kernels/isa/peak_probe.hpp"

#include "kernels/isa/int8_tile.hpp"
#include "kernels/isa/leaves.hpp"

namespace kvant::isa {

// C++ alone has no registers to fill: its peak is that of its own inner loops on operands in the first-level cache.
int64_t float_peak_portable(int64_t rounds) {
  constexpr int m = 64, n = 64, k = 64;
  static const float a[m * k] = {0.5f, 0.25f}, b[k * n] = {0.75f};
  float c[m * n];
  for (int64_t r = 0; r < rounds; ++r) {
    sgemm_portable(m, n, k, a, k, false, b, n, false, c, n, 1.0f, false);
    asm volatile("" : : "g"(&c) : "memory");
  }
  return int64_t{2} * m * n * k;
}

int64_t int8_peak_portable(int64_t rounds) {
  constexpr int m = 64, n = 64, k = 64;
  static const int8_t a[m * k] = {1, 2}, b[k * n] = {3};
  static const int32_t sums[n] = {};
  const float one = 1.0f;
  float c[m * n];
  for (int64_t r = 0; r < rounds; ++r) {
    int8_portable().multiply({m, n, k, a, b, sums, &one, 0, &one, 0, c, n, false});
    asm volatile("" : : "g"(&c) : "memory");
  }
  return int64_t{2} * m * n * k;
}

PeakProbe float_peak_probe(Isa isa) {
#if defined(__x86_64__)
  if (isa == Isa::avx512 || isa == Isa::avx512vnni) return float_peak_avx512;
  if (isa == Isa::avx2 || isa == Isa::avxvnni) return float_peak_avx2;
#endif
  return float_peak_portable;
}

PeakProbe int8_peak_probe(Isa isa) {
#if defined(__x86_64__)
  if (isa == Isa::avx512vnni) return int8_peak_avx512vnni;
  if (isa == Isa::avxvnni) return int8_peak_avxvnni;
  if (isa == Isa::avx2 || isa == Isa::avx512) return int8_peak_avx2;
#endif
  return int8_peak_portable;
}

}  // namespace kvant::isa
