// int8 for AVX2. The right operand stays in bytes and is widened in the loop (vpmovsxbw), which halves its bytes at the same
// speed. Exact for every code: a pair of products is at most 2 * 128^2, far inside int32.
#include "kernels/isa/int8_pairs_avx2.hpp"

namespace {

struct SignedByte {
  using Stored = int8_t;
  static __m256i widen(__m128i x) { return _mm256_cvtepi8_epi16(x); }
  static __m256i load(const int8_t* x) { return _mm256_cvtepi8_epi16(_mm_loadu_si128(reinterpret_cast<const __m128i*>(x))); }

  template <int Rows>
  [[gnu::always_inline]] static void block(const Int8Part& t, const int16_t* a, const int8_t* b) {
    // c may come from far: asked for now, it is there when the sums are finished.
#pragma GCC unroll 8
    for (int x = 0; x < Rows; ++x) __builtin_prefetch(t.c + x * t.ldc);
    __m256i acc[Rows][2];
    sum_pairs<SignedByte>(t.k, a, b, acc);
    store_part<Rows>(t, [&](int x, int v) { return StoreAvx2::to_float(acc[x][v]); });
  }
};

/// Eight columns whose steps lie together: 16 steps at a time, transposed as pairs (16-bit elements).
void pack_eight_columns(const int8_t* from, int64_t ld, int64_t columns, int64_t k, int8_t* to, int32_t* sums) {
  __m128i low_sum = _mm_setzero_si128(), high_sum = _mm_setzero_si128();
  for (int64_t p = 0; p < k; p += 16) {
    __m128i r[8], t[8];
#pragma GCC unroll 8
    for (int x = 0; x < 8; ++x) r[x] = x < columns ? load_bytes_16(from + x * ld + p, k - p) : _mm_setzero_si128();
#pragma GCC unroll 8
    for (int i = 0; i < 8; i += 2) {
      t[i] = _mm_unpacklo_epi16(r[i], r[i + 1]);
      t[i + 1] = _mm_unpackhi_epi16(r[i], r[i + 1]);
    }
#pragma GCC unroll 8
    for (int i = 0; i < 8; i += 4) {
      r[i] = _mm_unpacklo_epi32(t[i], t[i + 2]);
      r[i + 1] = _mm_unpackhi_epi32(t[i], t[i + 2]);
      r[i + 2] = _mm_unpacklo_epi32(t[i + 1], t[i + 3]);
      r[i + 3] = _mm_unpackhi_epi32(t[i + 1], t[i + 3]);
    }
#pragma GCC unroll 8
    for (int x = 0; x < 8; ++x) {
      if (p + 2 * x >= k) break;
      const __m128i pairs = x % 2 == 0 ? _mm_unpacklo_epi64(r[x / 2], r[4 + x / 2]) : _mm_unpackhi_epi64(r[x / 2], r[4 + x / 2]);
      _mm_storeu_si128(reinterpret_cast<__m128i*>(to + (p / 2 + x) * 2 * panel_columns), pairs);
      const __m128i sum = _mm_maddubs_epi16(_mm_set1_epi8(1), pairs);
      low_sum = _mm_add_epi32(low_sum, _mm_cvtepi16_epi32(sum));
      high_sum = _mm_add_epi32(high_sum, _mm_cvtepi16_epi32(_mm_srli_si128(sum, 8)));
    }
  }
  _mm_storeu_si128(reinterpret_cast<__m128i*>(sums), low_sum);
  _mm_storeu_si128(reinterpret_cast<__m128i*>(sums + 4), high_sum);
}

void pack_columns(const Int8Source& from, int64_t n, int64_t k, int8_t* to, int32_t* sums) {
  const int64_t depth = pair_depth(k), padded = (n + panel_columns - 1) / panel_columns * panel_columns;
  if (!from.steps_outer) {
    for (int64_t j = 0; j < padded; j += 8)
      pack_eight_columns(from.data + j * from.ld, from.ld, n - j, k, to + j / panel_columns * panel_columns * depth + j % panel_columns * 2, sums + j);
    return;
  }
  for (int64_t j = 0; j < padded; ++j) sums[j] = 0;
  for (int64_t begin = 0; begin < k; begin += 16)
    for (int64_t j = 0; j < padded; j += panel_columns)
      for (int64_t p = begin; p < k && p < begin + 16; p += 2) {
        const __m128i even = load_bytes_16(from.data + p * from.ld + j, n - j);
        const __m128i odd = p + 1 < k ? load_bytes_16(from.data + (p + 1) * from.ld + j, n - j) : _mm_setzero_si128();
        const __m256i pairs = _mm256_set_m128i(_mm_unpackhi_epi8(even, odd), _mm_unpacklo_epi8(even, odd));
        _mm256_storeu_si256(reinterpret_cast<__m256i*>(to + j * depth + p * panel_columns), pairs);
        const __m256i both = _mm256_maddubs_epi16(_mm256_set1_epi8(1), pairs);
        auto* sum = reinterpret_cast<__m256i*>(sums + j);
        _mm256_storeu_si256(sum, _mm256_add_epi32(_mm256_loadu_si256(sum), _mm256_cvtepi16_epi32(_mm256_castsi256_si128(both))));
        _mm256_storeu_si256(sum + 1, _mm256_add_epi32(_mm256_loadu_si256(sum + 1), _mm256_cvtepi16_epi32(_mm256_extracti128_si256(both, 1))));
      }
}

}  // namespace

namespace kvant::isa {

const Int8Leaf& int8_avx2() {
  static constexpr Int8Leaf leaf = {
      {panel_rows, 2, panel_columns, panel_columns, 2}, pack_rows<SignedByte>, pack_columns, multiply<SignedByte>};
  return leaf;
}

}  // namespace kvant::isa
