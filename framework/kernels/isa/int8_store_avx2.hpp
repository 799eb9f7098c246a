// How finished int32 sums of 256 bits become floats in c. In an anonymous namespace: every file has its own.
#pragma once

#include <immintrin.h>
#include <stdint.h>

namespace {

struct StoreAvx2 {
  using Sum = __m256i;
  using Float = __m256;
  static constexpr int width = 8;

  static Float to_float(Sum x) { return _mm256_cvtepi32_ps(x); }
  static Float set(float x) { return _mm256_set1_ps(x); }
  static Float mul(Float a, Float b) { return _mm256_mul_ps(a, b); }
  /// Scales of columns at .. at + 7, of which n exist.
  static Float load_scale(const float* x, int64_t at, int64_t stride, int64_t n) {
    if (stride == 0) return set(*x);
    if (n >= width) return _mm256_loadu_ps(x + at);
    alignas(32) float part[width] = {};
    for (int64_t i = 0; i < n; ++i) part[i] = x[at + i];
    return _mm256_load_ps(part);
  }
  static void store(float* c, int64_t n, Float v, bool add) {
    if (n >= width) return _mm256_storeu_ps(c, add ? _mm256_add_ps(_mm256_loadu_ps(c), v) : v);
    alignas(32) float part[width];
    _mm256_store_ps(part, v);
    for (int64_t i = 0; i < n; ++i) c[i] = add ? c[i] + part[i] : part[i];
  }
};

}  // namespace
