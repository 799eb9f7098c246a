// float8_e4m3fn by float8_e4m3fn as 12-bit fixed point for AVX2: a code becomes the integer nearest to value · 4095/448, vpmaddwd
// sums pairs of their products, and after 128 steps (128 · 4095² < 2^31) the int32 sums go into float sums. Magnitudes below 1/8190 of
// the format's largest are rounded away, a hundredth of what e4m3 itself rounds. Both operands are widened when they are packed.
#include "kernels/isa/int8_pairs_avx2.hpp"

namespace {

struct FixedE4m3 {
  using Stored = int16_t;
  /// A NaN code counts as 0: quantization stores none, its scale is NaN. The fields of a code are those of an f16 whose bias is 8
  /// larger, so that subnormal codes become normal floats: as subnormal floats each would cost a hundred cycles.
  static __m256i widen(__m128i codes) {
    const __m256i x = _mm256_cvtepi8_epi16(codes), magnitude = _mm256_set1_epi16(0x7f);
    const __m256i fields = _mm256_and_si256(_mm256_slli_epi16(x, 7), _mm256_set1_epi16(static_cast<short>(0xbfff)));
    const auto whole = [](__m128i halves) { return _mm256_cvtps_epi32(_mm256_mul_ps(_mm256_cvtph_ps(halves), _mm256_set1_ps(256.0f * fixed_unit))); };
    const __m256i mixed = _mm256_packs_epi32(whole(_mm256_castsi256_si128(fields)), whole(_mm256_extracti128_si256(fields, 1)));
    const __m256i nan = _mm256_cmpeq_epi16(_mm256_and_si256(x, magnitude), magnitude);
    return _mm256_andnot_si256(nan, _mm256_permute4x64_epi64(mixed, 0xd8));
  }
  static __m256i load(const int16_t* x) { return _mm256_loadu_si256(reinterpret_cast<const __m256i*>(x)); }

  /// The float sums wait in memory while the integer sums of 128 steps fill the registers.
  template <int Rows>
  [[gnu::always_inline]] static void sum(int64_t steps, const int16_t* a, const int16_t* b, float (*sums)[panel_columns], bool first) {
    __m256i acc[Rows][2];
    sum_pairs<FixedE4m3>(steps, a, b, acc);
#pragma GCC unroll 8
    for (int x = 0; x < Rows; ++x)
#pragma GCC unroll 2
      for (int v = 0; v < 2; ++v) {
        const __m256 part = _mm256_cvtepi32_ps(acc[x][v]);
        float* to = sums[x] + 8 * v;
        _mm256_store_ps(to, first ? part : _mm256_add_ps(_mm256_load_ps(to), part));
      }
  }

  template <int Rows>
  static void block(const Int8Part& t, const int16_t* a, const int16_t* b) {
    alignas(32) float sums[Rows][panel_columns];
    for (int64_t p = 0; p < t.k || p == 0; p += fixed_block)
      sum<Rows>(t.k - p < fixed_block ? t.k - p : fixed_block, a + p * panel_rows, b + p * panel_columns, sums, p == 0);
    const __m256 step = _mm256_set1_ps(fixed_step);
    store_part<Rows>(t, [&](int x, int v) { return _mm256_mul_ps(_mm256_load_ps(sums[x] + 8 * v), step); });
  }
};

void pack_columns(const Int8Source& from, int64_t n, int64_t k, int8_t* to, int32_t*) {
  const int64_t depth = pair_depth(k);
  auto* panels = reinterpret_cast<int16_t*>(to);
  const auto place = [&](int64_t j, int64_t p) { return panels + j / panel_columns * panel_columns * depth + p * panel_columns + j % panel_columns * 2; };
  const int64_t padded = (n + panel_columns - 1) / panel_columns * panel_columns;
  if (!from.steps_outer) {
    for (int64_t j = 0; j < padded; j += 8) pack_together<FixedE4m3, 8>(from.data + j * from.ld, from.ld, n - j, k, panel_columns, place(j, 0));
    return;
  }
  // Sixteen steps of all columns, then the next: a cache line of the source is used up before it is left.
  for (int64_t begin = 0; begin < k; begin += 16)
    for (int64_t j = 0; j < padded; j += 8)
      for (int64_t p = begin; p < k && p < begin + 16; p += 2) store_pairs<8>(place(j, p), pairs_of<FixedE4m3>(from, j, n - j, p, k));
}

}  // namespace

namespace kvant::isa {

const Int8Leaf& fixed_avx2() {
  static constexpr Int8Leaf leaf = {{panel_rows, 2, panel_columns, panel_columns, 2, 2}, pack_rows<FixedE4m3>, pack_columns, multiply<FixedE4m3>};
  return leaf;
}

}  // namespace kvant::isa
