// f32 leaf for AVX2 and FMA: 6 rows x 16 columns in 12 of the 16 registers.
#include "kernels/isa/leaves.hpp"
#include "kernels/isa/sgemm_leaf_body.hpp"

#include <immintrin.h>

namespace {

alignas(32) constexpr int32_t lane_masks[16] = {-1, -1, -1, -1, -1, -1, -1, -1, 0, 0, 0, 0, 0, 0, 0, 0};

struct Avx2 {
  using Type = __m256;
  using Mask = __m256i;
  static constexpr int width = 8;
  static constexpr int vectors = 2;

  static Type zero() { return _mm256_setzero_ps(); }
  static Type set(float x) { return _mm256_set1_ps(x); }
  static Type broadcast(const float* x) { return _mm256_broadcast_ss(x); }
  static Type load(const float* x) { return _mm256_loadu_ps(x); }
  static Type load(const float* x, Mask m) { return _mm256_maskload_ps(x, m); }
  static void store(float* x, Mask m, Type v) { _mm256_maskstore_ps(x, m, v); }
  static Type mul(Type a, Type b) { return _mm256_mul_ps(a, b); }
  static Type fma(Type a, Type b, Type c) { return _mm256_fmadd_ps(a, b, c); }
  static void store(float* x, Type v) { _mm256_storeu_ps(x, v); }
  /// The first n lanes (n may be below 0 or above 8).
  static Mask first(int n) {
    const int lanes = n >= 8 ? 8 : n <= 0 ? 0 : n;
    return _mm256_loadu_si256(reinterpret_cast<const __m256i*>(lane_masks + 8 - lanes));
  }

  /// to[p * step + j] = from[j * ld + p] for 8 x 8 elements, of which `rows` x `cols` exist; the others read as zero, and
  /// only rows of `to` below cols are written.
  static void transpose(const float* from, int64_t ld, int rows, int cols, float* to, int64_t step) {
    Type r[8], t[8];
    const Mask m = first(cols);
#pragma GCC unroll 8
    for (int i = 0; i < 8; ++i) r[i] = i >= rows ? zero() : cols >= 8 ? load(from + i * ld) : load(from + i * ld, m);
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
    for (int i = 0; i < 8; ++i)
      if (i < cols) _mm256_store_ps(to + i * step, t[i]);
  }
};

}  // namespace

namespace kvant::isa {

void sgemm_avx2(int m, int n, int k, const float* a, int64_t lda, bool trans_a, const float* b, int64_t ldb, bool trans_b,
                float* c, int64_t ldc, float alpha, bool accumulate) {
  leaf_body<Avx2>(m, n, k, a, lda, trans_a, b, ldb, trans_b, c, ldc, alpha, accumulate);
}

}  // namespace kvant::isa
