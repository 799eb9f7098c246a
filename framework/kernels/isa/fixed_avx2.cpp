// float8_e4m3fn by float8_e4m3fn as 12-bit fixed point for AVX2: a code becomes the integer nearest to value · 4095/448, vpmaddwd
// sums pairs of their products, and after 128 steps (128 · 4095² < 2^31) the int32 sums go into float sums. Magnitudes below 1/8190 of
// the format's largest are rounded away, a hundredth of what e4m3 itself rounds. 6 rows x 16 columns, as in int8_avx2.cpp, but both
// operands are widened when they are packed.
#include "kernels/isa/int8_next_panel.hpp"
#include "kernels/isa/int8_store_avx2.hpp"
#include "kernels/isa/int8_tile.hpp"

namespace {

using namespace kvant::isa;

constexpr int panel_rows = 6, panel_columns = 16;

/// Eight codes in the low half of `codes` as eight 16-bit integers. A NaN code counts as 0: quantization stores none, its scale is NaN.
__m128i fixed_of(__m128i codes) {
  const __m256i x = _mm256_cvtepu8_epi32(codes);
  const __m256i magnitude = _mm256_and_si256(x, _mm256_set1_epi32(0x7f));
  // Exponent and mantissa in a float's place are the value times 2^-120, subnormal codes included.
  const __m256 value = _mm256_mul_ps(_mm256_castsi256_ps(_mm256_slli_epi32(magnitude, 20)), _mm256_set1_ps(4095.0f / 448.0f * 0x1p120f));
  const __m256i whole = _mm256_andnot_si256(_mm256_cmpeq_epi32(magnitude, _mm256_set1_epi32(0x7f)), _mm256_cvtps_epi32(value));
  const __m256i negative = _mm256_cmpgt_epi32(x, _mm256_set1_epi32(0x7f));
  const __m256i with_sign = _mm256_sub_epi32(_mm256_xor_si256(whole, negative), negative);
  return _mm_packs_epi32(_mm256_castsi256_si128(with_sign), _mm256_extracti128_si256(with_sign, 1));
}

/// The first n of eight bytes, then zeros (the code of 0); reads no others.
__m128i load_codes(const int8_t* x, int64_t n) {
  if (n >= 8) return _mm_loadl_epi64(reinterpret_cast<const __m128i*>(x));
  alignas(8) int8_t part[8] = {};
  for (int64_t i = 0; i < n; ++i) part[i] = x[i];
  return _mm_loadl_epi64(reinterpret_cast<const __m128i*>(part));
}

/// `lanes` of a panel of `width` rows or columns (the others zero), over k steps, as pairs of steps: to[(p / 2 · width + lane) · 2 + p % 2].
template <int width>
void pack_panel(const Int8Source& from, int64_t lanes, int64_t k, int16_t* to) {
  const int64_t depth = (k + 1) / 2 * 2;
  if (!from.steps_outer) {
    for (int64_t lane = 0; lane < width; ++lane)
      for (int64_t p = 0; p < depth; p += 8) {
        const __m128i eight = lane < lanes ? fixed_of(load_codes(from.data + lane * from.ld + p, k - p)) : _mm_setzero_si128();
        alignas(16) int32_t pairs[4];
        _mm_store_si128(reinterpret_cast<__m128i*>(pairs), eight);
        for (int64_t q = 0; q < 4 && p + 2 * q < depth; ++q)
          __builtin_memcpy(to + ((p / 2 + q) * width + lane) * 2, pairs + q, sizeof(int32_t));
      }
    return;
  }
  for (int64_t p = 0; p < depth; p += 2)
    for (int64_t lane = 0; lane < width; lane += 8) {
      const int8_t* at = from.data + p * from.ld + lane;
      const int64_t left = lanes - lane;
      const __m128i even = left > 0 ? fixed_of(load_codes(at, left)) : _mm_setzero_si128();
      const __m128i odd = left > 0 && p + 1 < k ? fixed_of(load_codes(at + from.ld, left)) : _mm_setzero_si128();
      const __m128i low = _mm_unpacklo_epi16(even, odd), high = _mm_unpackhi_epi16(even, odd);
      int16_t* place = to + (p / 2 * width + lane) * 2;
      if (width - lane >= 8) {
        _mm_storeu_si128(reinterpret_cast<__m128i*>(place), low);
        _mm_storeu_si128(reinterpret_cast<__m128i*>(place + 8), high);
      } else {  // six rows: 24 bytes
        _mm_storeu_si128(reinterpret_cast<__m128i*>(place), low);
        _mm_storel_epi64(reinterpret_cast<__m128i*>(place + 8), high);
      }
    }
}

Int8Source lane(const Int8Source& from, int64_t at) { return {from.data + (from.steps_outer ? at : at * from.ld), from.ld, from.steps_outer}; }

void pack_rows(const Int8Source& from, int64_t m, int64_t k, void* to) {
  const int64_t depth = (k + 1) / 2 * 2;
  auto* panels = static_cast<int16_t*>(to);
  for (int64_t i = 0; i < m; i += panel_rows) pack_panel<panel_rows>(lane(from, i), m - i < panel_rows ? m - i : panel_rows, k, panels + i * depth);
}

void pack_columns(const Int8Source& from, int64_t n, int64_t k, int8_t* to, int32_t*) {
  const int64_t depth = (k + 1) / 2 * 2;
  auto* panels = reinterpret_cast<int16_t*>(to);
  for (int64_t j = 0; j < n; j += panel_columns)
    pack_panel<panel_columns>(lane(from, j), n - j < panel_columns ? n - j : panel_columns, k, panels + j * depth);
}

int32_t load_pair(const int16_t* x) {
  int32_t pair;
  __builtin_memcpy(&pair, x, sizeof(pair));
  return pair;
}

/// The float sums wait in memory while the integer sums of 128 steps fill the registers.
template <int Rows>
[[gnu::noinline]] void sum_block(int64_t steps, const int16_t* a, const int16_t* b, float (*sums)[panel_columns], bool first) {
  __m256i acc[Rows][2];
#pragma GCC unroll 8
  for (int x = 0; x < Rows; ++x) acc[x][0] = acc[x][1] = _mm256_setzero_si256();
  for (int64_t p = 0; p < steps; p += 2) {
    const __m256i b0 = _mm256_loadu_si256(reinterpret_cast<const __m256i*>(b));
    const __m256i b1 = _mm256_loadu_si256(reinterpret_cast<const __m256i*>(b + 16));
#pragma GCC unroll 8
    for (int x = 0; x < Rows; ++x) {
      const __m256i pair = _mm256_set1_epi32(load_pair(a + 2 * x));
      acc[x][0] = _mm256_add_epi32(acc[x][0], _mm256_madd_epi16(pair, b0));
      acc[x][1] = _mm256_add_epi32(acc[x][1], _mm256_madd_epi16(pair, b1));
    }
    a += 2 * panel_rows;
    b += 2 * panel_columns;
  }
#pragma GCC unroll 8
  for (int x = 0; x < Rows; ++x)
#pragma GCC unroll 2
    for (int v = 0; v < 2; ++v) {
      const __m256 part = _mm256_cvtepi32_ps(acc[x][v]);
      float* sum = sums[x] + 8 * v;
      _mm256_store_ps(sum, first ? part : _mm256_add_ps(_mm256_load_ps(sum), part));
    }
}

template <int Rows>
void block(const Int8Tile& t, const int16_t* a, const int16_t* b, int64_t i, int64_t j) {
  alignas(32) float sums[panel_rows][panel_columns];
  for (int64_t p = 0; p < t.k || p == 0; p += fixed_block)
    sum_block<Rows>(t.k - p < fixed_block ? t.k - p : fixed_block, a + p * panel_rows, b + p * panel_columns, sums, p == 0);
  const __m256 step = _mm256_set1_ps(fixed_step);
  for (int v = 0; v < 2; ++v) {
    const int64_t column = j + v * StoreAvx2::width;
    if (column >= t.n) break;
    const __m256 scale = StoreAvx2::load_scale(t.column_scale, column, t.column_stride, t.n - column);
    for (int x = 0; x < Rows; ++x) {
      const __m256 row = StoreAvx2::set(t.row_scale[(i + x) * t.row_stride]);
      const __m256 sum = StoreAvx2::mul(_mm256_load_ps(sums[x] + 8 * v), step);
      StoreAvx2::store(t.c + (i + x) * t.ldc + column, t.n - column, StoreAvx2::mul(StoreAvx2::mul(sum, row), scale), t.add);
    }
  }
}

template <int Rows>
void rows_left(int64_t rows, const Int8Tile& t, const int16_t* a, const int16_t* b, int64_t i, int64_t j) {
  if (rows >= Rows)
    block<Rows>(t, a, b, i, j);
  else if constexpr (Rows > 1)
    rows_left<Rows - 1>(rows, t, a, b, i, j);
}

void multiply(const Int8Tile& t) {
  const int64_t depth = (t.k + 1) / 2 * 2;
  const auto* columns = reinterpret_cast<const int16_t*>(t.b);
  for (int64_t j = 0; j < t.n; j += panel_columns) {
    NextPanel next(t.b + j * depth * 2, t.n - j > panel_columns ? panel_columns * depth * 2 : 0, (t.m + panel_rows - 1) / panel_rows);
    for (int64_t i = 0; i < t.m; i += panel_rows, next.fetch_part())
      rows_left<panel_rows>(t.m - i, t, static_cast<const int16_t*>(t.a) + i * depth, columns + j * depth, i, j);
  }
}

}  // namespace

namespace kvant::isa {

const Int8Leaf& fixed_avx2() {
  static constexpr Int8Leaf leaf = {{panel_rows, 2, panel_columns, panel_columns, 2, 2}, pack_rows, pack_columns, multiply};
  return leaf;
}

}  // namespace kvant::isa
