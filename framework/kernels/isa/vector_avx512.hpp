// AVX-512 as the f32 bodies of this folder see it. In an anonymous namespace: every file has its own, so that none is
// shared between files built for different ISAs.
#pragma once

#include "kernels/isa/float_sources.hpp"

#include <immintrin.h>

namespace {

using namespace kvant::isa;

struct Avx512 {
  using Type = __m512;
  using Mask = __mmask16;
  static constexpr int width = 16;
  static constexpr int leaf_vectors = 4;  // leaf: 6 x 4 sums
  static constexpr int tile_rows = 12, tile_vectors = 2;

  static Type zero() { return _mm512_setzero_ps(); }
  static Type set(float x) { return _mm512_set1_ps(x); }
  static Type broadcast(const float* x) { return _mm512_set1_ps(*x); }
  static Type load(const float* x) { return _mm512_loadu_ps(x); }
  static Type load(const float* x, Mask m) { return _mm512_maskz_loadu_ps(m, x); }
  static void store(float* x, Type v) { _mm512_storeu_ps(x, v); }
  static void store(float* x, Mask m, Type v) { _mm512_mask_storeu_ps(x, m, v); }
  static void store_tile_rows(float* x, Type v) { _mm512_mask_storeu_ps(x, 0xfff, v); }
  static Type mul(Type a, Type b) { return _mm512_mul_ps(a, b); }
  static Type fma(Type a, Type b, Type c) { return _mm512_fmadd_ps(a, b, c); }
  /// The first n lanes (n may be below 0 or above 16).
  static Mask first(int n) { return n >= 16 ? Mask(0xffff) : n <= 0 ? Mask(0) : Mask((1u << n) - 1); }

  static Type widen(SourceBf16, __m256i x) { return _mm512_castsi512_ps(_mm512_slli_epi32(_mm512_cvtepu16_epi32(x), 16)); }
  static Type widen(SourceI8, __m128i x) { return _mm512_cvtepi32_ps(_mm512_cvtepi8_epi32(x)); }
  /// The top byte of an f16.
  static Type widen(SourceE5m2, __m128i x) { return _mm512_cvtph_ps(_mm256_slli_epi16(_mm256_cvtepu8_epi16(x), 8)); }
  /// Its fields one place lower in an f16, whose bias is 8 larger; sign and code 0x7f (NaN) by themselves.
  static Type widen(SourceE4m3fn, __m128i x) {
    const __m256i wide = _mm256_cvtepi8_epi16(x);
    const __m256i fields = _mm256_and_si256(_mm256_slli_epi16(wide, 7), _mm256_set1_epi16(static_cast<short>(0xbfff)));
    const Type value = _mm512_mul_ps(_mm512_cvtph_ps(fields), _mm512_set1_ps(256.0f));
    const __mmask16 nan = _mm_cmpeq_epi8_mask(_mm_and_si128(x, _mm_set1_epi8(0x7f)), _mm_set1_epi8(0x7f));
    return _mm512_mask_blend_ps(nan, value, _mm512_castsi512_ps(_mm512_set1_epi32(0x7fc00000)));
  }

  /// As e4m3fn with a bias that is 7 smaller than f16's; the one NaN is the code of -0.
  static Type widen(SourceE4m3fnuz, __m128i x) {
    const __m256i wide = _mm256_cvtepi8_epi16(x);
    const __m256i fields = _mm256_and_si256(_mm256_slli_epi16(wide, 7), _mm256_set1_epi16(static_cast<short>(0xbfff)));
    const Type value = _mm512_mul_ps(_mm512_cvtph_ps(fields), _mm512_set1_ps(128.0f));
    return _mm512_mask_blend_ps(_mm_cmpeq_epi8_mask(x, _mm_set1_epi8(static_cast<char>(0x80))), value, _mm512_castsi512_ps(_mm512_set1_epi32(0x7fc00000)));
  }
  /// Its largest exponent is no f16's: exponent and mantissa go into a float's place, subnormal codes are their mantissa · 2^-17.
  static Type widen(SourceE5m2fnuz, __m128i x) {
    const __m512i v = _mm512_cvtepi8_epi32(x), magnitude = _mm512_and_si512(v, _mm512_set1_epi32(0x7f));
    const __m512i normal = _mm512_add_epi32(_mm512_slli_epi32(magnitude, 21), _mm512_set1_epi32(111 << 23));
    const Type small = _mm512_mul_ps(_mm512_cvtepi32_ps(magnitude), _mm512_set1_ps(0x1p-17f));
    const Type value = _mm512_mask_blend_ps(_mm512_cmplt_epi32_mask(magnitude, _mm512_set1_epi32(4)), _mm512_castsi512_ps(normal), small);
    const __m512i sign = _mm512_and_si512(v, _mm512_set1_epi32(static_cast<int>(0x80000000u)));
    const Type with_sign = _mm512_castsi512_ps(_mm512_or_si512(_mm512_castps_si512(value), sign));
    return _mm512_mask_blend_ps(_mm512_cmpeq_epi32_mask(v, _mm512_set1_epi32(-128)), with_sign, _mm512_castsi512_ps(_mm512_set1_epi32(0x7fc00000)));
  }
  /// Twice the value of each of the sixteen codes, looked up. -0 is the one that the table cannot say: its sign is that of the code.
  static Type widen(SourceE2m1, __m128i x) {
    const __m128i twice = _mm_shuffle_epi8(_mm_setr_epi8(0, 1, 2, 3, 4, 6, 8, 12, 0, 1, 2, 3, 4, 6, 8, 12), x);
    const Type magnitude = _mm512_mul_ps(_mm512_cvtepi32_ps(_mm512_cvtepi8_epi32(twice)), _mm512_set1_ps(0.5f));
    const __m512i sign = _mm512_slli_epi32(_mm512_and_si512(_mm512_cvtepu8_epi32(x), _mm512_set1_epi32(8)), 28);
    return _mm512_castsi512_ps(_mm512_or_si512(_mm512_castps_si512(magnitude), sign));
  }

  static Type load(SourceF32, const float* x) { return _mm512_loadu_ps(x); }
  static Type load(SourceBf16 s, const uint16_t* x) { return widen(s, _mm256_loadu_si256(reinterpret_cast<const __m256i*>(x))); }
  template <class S>
  static Type load(S s, const typename S::Element* x) { return widen(s, _mm_loadu_si128(reinterpret_cast<const __m128i*>(x))); }
  /// The first n elements, then zeros; reads no others.
  static Type load(SourceF32, const float* x, int n) { return _mm512_maskz_loadu_ps(first(n), x); }
  static Type load(SourceBf16 s, const uint16_t* x, int n) { return widen(s, _mm256_maskz_loadu_epi16(first(n), x)); }
  template <class S>
  static Type load(S s, const typename S::Element* x, int n) { return widen(s, _mm_maskz_loadu_epi8(first(n), x)); }

  /// r as a 16 x 16 matrix, transposed.
  static void transpose(Type (&r)[16]) {
    Type t[16];
#pragma GCC unroll 16
    for (int i = 0; i < 16; i += 2) {
      t[i] = _mm512_unpacklo_ps(r[i], r[i + 1]);
      t[i + 1] = _mm512_unpackhi_ps(r[i], r[i + 1]);
    }
#pragma GCC unroll 16
    for (int i = 0; i < 16; i += 4) {
      r[i] = _mm512_shuffle_ps(t[i], t[i + 2], 0x44);
      r[i + 1] = _mm512_shuffle_ps(t[i], t[i + 2], 0xee);
      r[i + 2] = _mm512_shuffle_ps(t[i + 1], t[i + 3], 0x44);
      r[i + 3] = _mm512_shuffle_ps(t[i + 1], t[i + 3], 0xee);
    }
    // r[4 g + c] holds, in 128-bit lane l, column 4 l + c of rows 4 g .. 4 g + 3: the rest is a 4 x 4 transposition of lanes.
#pragma GCC unroll 16
    for (int c = 0; c < 4; ++c) {
      const Type low01 = _mm512_shuffle_f32x4(r[c], r[4 + c], 0x44), high01 = _mm512_shuffle_f32x4(r[c], r[4 + c], 0xee);
      const Type low23 = _mm512_shuffle_f32x4(r[8 + c], r[12 + c], 0x44), high23 = _mm512_shuffle_f32x4(r[8 + c], r[12 + c], 0xee);
      t[c] = _mm512_shuffle_f32x4(low01, low23, 0x88);
      t[4 + c] = _mm512_shuffle_f32x4(low01, low23, 0xdd);
      t[8 + c] = _mm512_shuffle_f32x4(high01, high23, 0x88);
      t[12 + c] = _mm512_shuffle_f32x4(high01, high23, 0xdd);
    }
#pragma GCC unroll 16
    for (int i = 0; i < 16; ++i) r[i] = t[i];
  }
};

}  // namespace
