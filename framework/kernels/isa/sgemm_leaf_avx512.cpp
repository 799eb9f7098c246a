// f32 leaf for AVX-512: 6 rows x 64 columns in 24 of the 32 registers.
#include "kernels/isa/leaves.hpp"
#include "kernels/isa/sgemm_leaf_body.hpp"

#include <immintrin.h>

namespace {

struct Avx512 {
  using Type = __m512;
  using Mask = __mmask16;
  static constexpr int width = 16;
  static constexpr int vectors = 4;

  static Type zero() { return _mm512_setzero_ps(); }
  static Type set(float x) { return _mm512_set1_ps(x); }
  static Type broadcast(const float* x) { return _mm512_set1_ps(*x); }
  static Type load(const float* x) { return _mm512_loadu_ps(x); }
  static Type load(const float* x, Mask m) { return _mm512_maskz_loadu_ps(m, x); }
  static void store(float* x, Mask m, Type v) { _mm512_mask_storeu_ps(x, m, v); }
  static Type mul(Type a, Type b) { return _mm512_mul_ps(a, b); }
  static Type fma(Type a, Type b, Type c) { return _mm512_fmadd_ps(a, b, c); }
  static void store(float* x, Type v) { _mm512_storeu_ps(x, v); }
  /// The first n lanes (n may be below 0 or above 16).
  static Mask first(int n) { return n >= 16 ? Mask(0xffff) : n <= 0 ? Mask(0) : Mask((1u << n) - 1); }

  /// to[p * step + j] = from[j * ld + p] for 16 x 16 elements, of which `rows` x `cols` exist; the others read as zero, and
  /// only rows of `to` below cols are written.
  static void transpose(const float* from, int64_t ld, int rows, int cols, float* to, int64_t step) {
    Type r[16], t[16];
    const Mask m = first(cols);
#pragma GCC unroll 16
    for (int i = 0; i < 16; ++i) r[i] = i < rows ? load(from + i * ld, m) : zero();
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
    for (int i = 0; i < 16; ++i)
      if (i < cols) _mm512_store_ps(to + i * step, t[i]);
  }
};

}  // namespace

namespace kvant::isa {

void sgemm_avx512(int m, int n, int k, const float* a, int64_t lda, bool trans_a, const float* b, int64_t ldb,
                  bool trans_b, float* c, int64_t ldc, float alpha, bool accumulate) {
  leaf_body<Avx512>(m, n, k, a, lda, trans_a, b, ldb, trans_b, c, ldc, alpha, accumulate);
}

}  // namespace kvant::isa
