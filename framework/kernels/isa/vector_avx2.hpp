// AVX2, FMA and F16C as the f32 bodies of this folder see it. In an anonymous namespace: every file has its own, so that
// none is shared between files built for different ISAs.
#pragma once

#include "kernels/isa/float_sources.hpp"

#include <immintrin.h>

namespace {

using namespace kvant::isa;

alignas(32) constexpr int32_t lane_masks[16] = {-1, -1, -1, -1, -1, -1, -1, -1, 0, 0, 0, 0, 0, 0, 0, 0};

struct Avx2 {
  using Type = __m256;
  using Mask = __m256i;
  static constexpr int width = 8;
  static constexpr int leaf_vectors = 2;  // leaf: 6 x 2 sums
  static constexpr int tile_rows = 6, tile_vectors = 2;

  static Type zero() { return _mm256_setzero_ps(); }
  static Type set(float x) { return _mm256_set1_ps(x); }
  static Type broadcast(const float* x) { return _mm256_broadcast_ss(x); }
  static Type load(const float* x) { return _mm256_loadu_ps(x); }
  static Type load(const float* x, Mask m) { return _mm256_maskload_ps(x, m); }
  static void store(float* x, Type v) { _mm256_storeu_ps(x, v); }
  static void store(float* x, Mask m, Type v) { _mm256_maskstore_ps(x, m, v); }
  static void store_tile_rows(float* x, Type v) {
    _mm_storeu_ps(x, _mm256_castps256_ps128(v));
    _mm_storel_pi(reinterpret_cast<__m64*>(x + 4), _mm256_extractf128_ps(v, 1));
  }
  static Type mul(Type a, Type b) { return _mm256_mul_ps(a, b); }
  static Type fma(Type a, Type b, Type c) { return _mm256_fmadd_ps(a, b, c); }
  /// The first n lanes (n may be below 0 or above 8).
  static Mask first(int n) {
    const int lanes = n >= 8 ? 8 : n <= 0 ? 0 : n;
    return _mm256_loadu_si256(reinterpret_cast<const __m256i*>(lane_masks + 8 - lanes));
  }

  static Type load(SourceF32, const float* x) { return _mm256_loadu_ps(x); }
  static Type load(SourceBf16, const uint16_t* x) {
    const __m128i v = _mm_loadu_si128(reinterpret_cast<const __m128i*>(x));
    return _mm256_castsi256_ps(_mm256_slli_epi32(_mm256_cvtepu16_epi32(v), 16));
  }
  static Type load(SourceI8, const int8_t* x) {
    return _mm256_cvtepi32_ps(_mm256_cvtepi8_epi32(_mm_loadl_epi64(reinterpret_cast<const __m128i*>(x))));
  }
  /// The top byte of an f16.
  static Type load(SourceE5m2, const uint8_t* x) {
    const __m128i v = _mm_loadl_epi64(reinterpret_cast<const __m128i*>(x));
    return _mm256_cvtph_ps(_mm_unpacklo_epi8(_mm_setzero_si128(), v));
  }
  /// Its fields one place lower in an f16, whose bias is 8 larger; sign and code 0x7f (NaN) by themselves.
  static Type load(SourceE4m3fn, const uint8_t* x) {
    const __m128i v = _mm_loadl_epi64(reinterpret_cast<const __m128i*>(x));
    const __m128i fields = _mm_and_si128(_mm_slli_epi16(_mm_cvtepi8_epi16(v), 7), _mm_set1_epi16(static_cast<short>(0xbfff)));
    const Type value = _mm256_mul_ps(_mm256_cvtph_ps(fields), _mm256_set1_ps(256.0f));
    const __m128i nan = _mm_cmpeq_epi8(_mm_and_si128(v, _mm_set1_epi8(0x7f)), _mm_set1_epi8(0x7f));
    return _mm256_blendv_ps(value, _mm256_castsi256_ps(_mm256_set1_epi32(0x7fc00000)),
                            _mm256_castsi256_ps(_mm256_cvtepi8_epi32(nan)));
  }
  /// As e4m3fn with a bias that is 7 smaller than f16's; the one NaN is the code of -0.
  static Type load(SourceE4m3fnuz, const uint8_t* x) {
    const __m128i v = _mm_loadl_epi64(reinterpret_cast<const __m128i*>(x));
    const __m128i fields = _mm_and_si128(_mm_slli_epi16(_mm_cvtepi8_epi16(v), 7), _mm_set1_epi16(static_cast<short>(0xbfff)));
    const Type value = _mm256_mul_ps(_mm256_cvtph_ps(fields), _mm256_set1_ps(128.0f));
    const __m128i nan = _mm_cmpeq_epi8(v, _mm_set1_epi8(static_cast<char>(0x80)));
    return _mm256_blendv_ps(value, _mm256_castsi256_ps(_mm256_set1_epi32(0x7fc00000)), _mm256_castsi256_ps(_mm256_cvtepi8_epi32(nan)));
  }
  /// Its largest exponent is no f16's: exponent and mantissa go into a float's place, subnormal codes are their mantissa · 2^-17.
  static Type load(SourceE5m2fnuz, const uint8_t* x) {
    const __m256i v = _mm256_cvtepi8_epi32(_mm_loadl_epi64(reinterpret_cast<const __m128i*>(x)));
    const __m256i magnitude = _mm256_and_si256(v, _mm256_set1_epi32(0x7f));
    const __m256i normal = _mm256_add_epi32(_mm256_slli_epi32(magnitude, 21), _mm256_set1_epi32(111 << 23));
    const Type small = _mm256_mul_ps(_mm256_cvtepi32_ps(magnitude), _mm256_set1_ps(0x1p-17f));
    const Type value = _mm256_blendv_ps(_mm256_castsi256_ps(normal), small, _mm256_castsi256_ps(_mm256_cmpgt_epi32(_mm256_set1_epi32(4), magnitude)));
    const Type with_sign = _mm256_or_ps(value, _mm256_castsi256_ps(_mm256_and_si256(v, _mm256_set1_epi32(static_cast<int>(0x80000000u)))));
    const __m256i nan = _mm256_cmpeq_epi32(v, _mm256_set1_epi32(-128));
    return _mm256_blendv_ps(with_sign, _mm256_castsi256_ps(_mm256_set1_epi32(0x7fc00000)), _mm256_castsi256_ps(nan));
  }
  /// Twice the value of each of the sixteen codes, looked up. -0 is the one that the table cannot say: its sign is that of the code.
  static Type load(SourceE2m1, const uint8_t* x) {
    const __m128i v = _mm_loadl_epi64(reinterpret_cast<const __m128i*>(x));
    const __m128i twice = _mm_shuffle_epi8(_mm_setr_epi8(0, 1, 2, 3, 4, 6, 8, 12, 0, 1, 2, 3, 4, 6, 8, 12), v);
    const Type magnitude = _mm256_mul_ps(_mm256_cvtepi32_ps(_mm256_cvtepi8_epi32(twice)), _mm256_set1_ps(0.5f));
    return _mm256_or_ps(magnitude, _mm256_castsi256_ps(_mm256_slli_epi32(_mm256_and_si256(_mm256_cvtepu8_epi32(v), _mm256_set1_epi32(8)), 28)));
  }
  /// The first n elements, then zeros; reads no others.
  static Type load(SourceF32, const float* x, int n) { return _mm256_maskload_ps(x, first(n)); }
  template <class S>
  static Type load(S s, const typename S::Element* x, int n) {
    typename S::Element part[width] = {};
    for (int i = 0; i < n && i < width; ++i) part[i] = x[i];
    return load(s, part);
  }

  /// r as an 8 x 8 matrix, transposed.
  static void transpose(Type (&r)[8]) {
    Type t[8];
#pragma GCC unroll 8
    for (int i = 0; i < 8; i += 2) {
      t[i] = _mm256_unpacklo_ps(r[i], r[i + 1]);
      t[i + 1] = _mm256_unpackhi_ps(r[i], r[i + 1]);
    }
#pragma GCC unroll 8
    for (int i = 0; i < 8; i += 4) {
      r[i] = _mm256_shuffle_ps(t[i], t[i + 2], 0x44);
      r[i + 1] = _mm256_shuffle_ps(t[i], t[i + 2], 0xee);
      r[i + 2] = _mm256_shuffle_ps(t[i + 1], t[i + 3], 0x44);
      r[i + 3] = _mm256_shuffle_ps(t[i + 1], t[i + 3], 0xee);
    }
#pragma GCC unroll 8
    for (int c = 0; c < 4; ++c) {
      t[c] = _mm256_permute2f128_ps(r[c], r[4 + c], 0x20);
      t[4 + c] = _mm256_permute2f128_ps(r[c], r[4 + c], 0x31);
    }
#pragma GCC unroll 8
    for (int i = 0; i < 8; ++i) r[i] = t[i];
  }
};

}  // namespace
