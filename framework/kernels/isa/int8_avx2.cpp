// int8 for AVX2: vpmaddwd sums two steps of 16-bit products. The left operand is widened to int16 when it is packed (it is
// small and read often), the right one in the loop (vpmovsxbw), which halves its bytes at the same speed. Exact for every
// code: a pair of products is at most 2 * 128^2, far inside int32. 6 rows x 16 columns in 12 of the 16 registers.
#include "kernels/isa/int8_next_panel.hpp"
#include "kernels/isa/int8_store_avx2.hpp"
#include "kernels/isa/int8_tile.hpp"

namespace {

using namespace kvant::isa;

constexpr int panel_rows = 6, panel_columns = 16;

/// The first n bytes, then zeros; reads no others.
__m128i load_bytes_16(const int8_t* x, int64_t n) {
  if (n >= 16) return _mm_loadu_si128(reinterpret_cast<const __m128i*>(x));
  alignas(16) int8_t part[16] = {};
  for (int64_t i = 0; i < n; ++i) part[i] = x[i];
  return _mm_load_si128(reinterpret_cast<const __m128i*>(part));
}

__m128i load_bytes_8(const int8_t* x, int64_t n) {
  if (n >= 8) return _mm_loadl_epi64(reinterpret_cast<const __m128i*>(x));
  return load_bytes_16(x, n);
}

/// Two steps of one row as one integer.
int32_t load_pair(const int16_t* x) {
  int32_t pair;
  __builtin_memcpy(&pair, x, sizeof(pair));
  return pair;
}

/// Pairs of six rows: 24 bytes.
void store_six(void* to, __m256i pairs) {
  _mm_storeu_si128(static_cast<__m128i*>(to), _mm256_castsi256_si128(pairs));
  _mm_storel_epi64(static_cast<__m128i*>(to) + 1, _mm256_extracti128_si256(pairs, 1));
}

/// Six rows (of which `rows` exist) whose steps lie together: 16 steps at a time, transposed as pairs.
void pack_six_rows(const int8_t* from, int64_t ld, int64_t rows, int64_t k, int16_t* to) {
  for (int64_t p = 0; p < k; p += 16) {
    __m256i r[8], t[8];
#pragma GCC unroll 8
    for (int x = 0; x < 8; ++x)
      r[x] = x < panel_rows && x < rows ? _mm256_cvtepi8_epi16(load_bytes_16(from + x * ld + p, k - p)) : _mm256_setzero_si256();
#pragma GCC unroll 8
    for (int i = 0; i < 8; i += 2) {
      t[i] = _mm256_unpacklo_epi32(r[i], r[i + 1]);
      t[i + 1] = _mm256_unpackhi_epi32(r[i], r[i + 1]);
    }
#pragma GCC unroll 8
    for (int i = 0; i < 8; i += 4) {
      r[i] = _mm256_unpacklo_epi64(t[i], t[i + 2]);
      r[i + 1] = _mm256_unpackhi_epi64(t[i], t[i + 2]);
      r[i + 2] = _mm256_unpacklo_epi64(t[i + 1], t[i + 3]);
      r[i + 3] = _mm256_unpackhi_epi64(t[i + 1], t[i + 3]);
    }
#pragma GCC unroll 8
    for (int x = 0; x < 8; ++x) {
      if (p + 2 * x >= k) break;
      const __m256i low = r[x % 4], high = r[4 + x % 4];  // an immediate must be one without optimisation too
      const __m256i pairs = x < 4 ? _mm256_permute2x128_si256(low, high, 0x20) : _mm256_permute2x128_si256(low, high, 0x31);
      store_six(to + (p / 2 + x) * 2 * panel_rows, pairs);
    }
  }
}

void pack_rows(const Int8Source& from, int64_t m, int64_t k, void* to) {
  const int64_t depth = (k + 1) / 2 * 2;
  auto* panels = static_cast<int16_t*>(to);
  if (!from.steps_outer) {
    for (int64_t i = 0; i < m; i += panel_rows) pack_six_rows(from.data + i * from.ld, from.ld, m - i, k, panels + i * depth);
    return;
  }
  // Eight steps of all rows, then the next: a cache line of the source is used up before it is left.
  for (int64_t begin = 0; begin < k; begin += 8)
    for (int64_t i = 0; i < m; i += panel_rows)
      for (int64_t p = begin; p < k && p < begin + 8; p += 2) {
        const __m128i even = load_bytes_8(from.data + p * from.ld + i, m - i);
        const __m128i odd = p + 1 < k ? load_bytes_8(from.data + (p + 1) * from.ld + i, m - i) : _mm_setzero_si128();
        store_six(panels + i * depth + p * panel_rows, _mm256_cvtepi8_epi16(_mm_unpacklo_epi8(even, odd)));
      }
}

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
  const int64_t depth = (k + 1) / 2 * 2, padded = (n + panel_columns - 1) / panel_columns * panel_columns;
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

/// acc over k, then stored: Rows x 16 columns. Not inlined, so that nothing but the sums, the columns and one row's pair lives
/// in registers in the loop.
template <int Rows>
[[gnu::noinline]] void block(const Int8Tile& t, const int16_t* a, const int8_t* b, int64_t i, int64_t j) {
  __m256i acc[Rows][2];
#pragma GCC unroll 8
  for (int x = 0; x < Rows; ++x) acc[x][0] = acc[x][1] = _mm256_setzero_si256();
  // c may come from far: asked for now, it is there when the sums are finished.
#pragma GCC unroll 8
  for (int x = 0; x < Rows; ++x) __builtin_prefetch(t.c + (i + x) * t.ldc + j);
  for (int64_t p = 0; p < t.k; p += 2) {
    const __m256i b0 = _mm256_cvtepi8_epi16(_mm_loadu_si128(reinterpret_cast<const __m128i*>(b)));
    const __m256i b1 = _mm256_cvtepi8_epi16(_mm_loadu_si128(reinterpret_cast<const __m128i*>(b + 16)));
#pragma GCC unroll 8
    for (int x = 0; x < Rows; ++x) {
      const __m256i pair = _mm256_set1_epi32(load_pair(a + 2 * x));
      acc[x][0] = _mm256_add_epi32(acc[x][0], _mm256_madd_epi16(pair, b0));
      acc[x][1] = _mm256_add_epi32(acc[x][1], _mm256_madd_epi16(pair, b1));
    }
    a += 2 * panel_rows;
    b += 2 * panel_columns;
  }
#pragma GCC unroll 2
  for (int v = 0; v < 2; ++v) {
    const int64_t column = j + v * StoreAvx2::width;
    if (column >= t.n) break;
    const __m256 scale = StoreAvx2::load_scale(t.column_scale, column, t.column_stride, t.n - column);
#pragma GCC unroll 8
    for (int x = 0; x < Rows; ++x) {
      const __m256 row = StoreAvx2::set(t.row_scale[(i + x) * t.row_stride]);
      StoreAvx2::store(t.c + (i + x) * t.ldc + column, t.n - column,
                       StoreAvx2::mul(StoreAvx2::mul(StoreAvx2::to_float(acc[x][v]), row), scale), t.add);
    }
  }
}

template <int Rows>
void rows_left(int64_t rows, const Int8Tile& t, const int16_t* a, const int8_t* b, int64_t i, int64_t j) {
  if (rows >= Rows)
    block<Rows>(t, a, b, i, j);
  else if constexpr (Rows > 1)
    rows_left<Rows - 1>(rows, t, a, b, i, j);
}

void multiply(const Int8Tile& t) {
  const int64_t depth = (t.k + 1) / 2 * 2;
  for (int64_t j = 0; j < t.n; j += panel_columns) {
    NextPanel next(t.b + j * depth, t.n - j > panel_columns ? panel_columns * depth : 0, (t.m + panel_rows - 1) / panel_rows);
    for (int64_t i = 0; i < t.m; i += panel_rows, next.fetch_part())
      rows_left<panel_rows>(t.m - i, t, static_cast<const int16_t*>(t.a) + i * depth, t.b + j * depth, i, j);
  }
}

}  // namespace

namespace kvant::isa {

const Int8Leaf& int8_avx2() {
  static constexpr Int8Leaf leaf = {
      {panel_rows, 2, panel_columns, panel_columns, 2}, pack_rows, pack_columns, multiply};
  return leaf;
}

}  // namespace kvant::isa
