// Products on vpmaddwd, which sums two steps of 16-bit products: 6 rows x 16 columns in 12 of the 16 registers. The left operand
// is widened to 16 bits when it is packed: it is small and read often. What an element is, and how a right one is stored, says
// `Element`. In an anonymous namespace: each file that includes this has its own.
#pragma once

#include "kernels/isa/int8_next_panel.hpp"
#include "kernels/isa/int8_store_avx2.hpp"
#include "kernels/isa/int8_tile.hpp"
#include "kernels/isa/transpose_8x8.hpp"

namespace {

using namespace kvant::isa;

constexpr int panel_rows = 6, panel_columns = 16;

/// Elements of a panel over k steps: whole pairs.
constexpr int64_t pair_depth(int64_t k) { return (k + 1) / 2 * 2; }

/// The first n bytes, then zeros (in every type here the code of 0); reads no others.
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

/// Pairs of six or eight lanes.
template <int Lanes>
void store_pairs(void* to, __m256i pairs) {
  static_assert(Lanes == 6 || Lanes == 8);
  if constexpr (Lanes == 8) return _mm256_storeu_si256(static_cast<__m256i*>(to), pairs);
  _mm_storeu_si128(static_cast<__m128i*>(to), _mm256_castsi256_si128(pairs));
  _mm_storel_epi64(static_cast<__m128i*>(to) + 1, _mm256_extracti128_si256(pairs, 1));
}

/// Lanes (of which `lanes` exist) whose steps lie together: 16 steps at a time, widened and transposed as pairs of 16-bit
/// elements. A pair of all lanes of a panel is 2 · panel elements.
template <class Element, int Lanes>
void pack_together(const int8_t* from, int64_t ld, int64_t lanes, int64_t k, int64_t panel, int16_t* to) {
  for (int64_t p = 0; p < k; p += 16) {
    __m256i r[8];
#pragma GCC unroll 8
    for (int x = 0; x < 8; ++x) r[x] = x < Lanes && x < lanes ? Element::widen(load_bytes_16(from + x * ld + p, k - p)) : _mm256_setzero_si256();
    transpose_8x8(r);
#pragma GCC unroll 8
    for (int x = 0; x < 8; ++x) {
      if (p + 2 * x >= k) break;
      store_pairs<Lanes>(to + (p / 2 + x) * 2 * panel, r[x]);
    }
  }
}

/// Steps p and p + 1 of eight lanes that lie together, `lanes` of which exist.
template <class Element>
__m256i pairs_of(const Int8Source& from, int64_t lane, int64_t lanes, int64_t p, int64_t k) {
  const __m128i even = load_bytes_8(from.data + p * from.ld + lane, lanes);
  const __m128i odd = p + 1 < k ? load_bytes_8(from.data + (p + 1) * from.ld + lane, lanes) : _mm_setzero_si128();
  return Element::widen(_mm_unpacklo_epi8(even, odd));
}

template <class Element>
void pack_rows(const Int8Source& from, int64_t m, int64_t k, void* to) {
  const int64_t depth = pair_depth(k);
  auto* panels = static_cast<int16_t*>(to);
  if (!from.steps_outer) {
    for (int64_t i = 0; i < m; i += panel_rows)
      pack_together<Element, panel_rows>(from.data + i * from.ld, from.ld, m - i, k, panel_rows, panels + i * depth);
    return;
  }
  // Eight steps of all rows, then the next: a cache line of the source is used up before it is left.
  for (int64_t begin = 0; begin < k; begin += 8)
    for (int64_t i = 0; i < m; i += panel_rows)
      for (int64_t p = begin; p < k && p < begin + 8; p += 2)
        store_pairs<panel_rows>(panels + i * depth + p * panel_rows, pairs_of<Element>(from, i, m - i, p, k));
}

/// The sums of `steps` steps of Rows rows by 16 columns.
template <class Element, int Rows>
[[gnu::always_inline]] inline void sum_pairs(int64_t steps, const int16_t* a, const typename Element::Stored* b, __m256i (&acc)[Rows][2]) {
#pragma GCC unroll 8
  for (int x = 0; x < Rows; ++x) acc[x][0] = acc[x][1] = _mm256_setzero_si256();
  for (int64_t p = 0; p < steps; p += 2) {
    const __m256i b0 = Element::load(b), b1 = Element::load(b + 16);
#pragma GCC unroll 8
    for (int x = 0; x < Rows; ++x) {
      const __m256i pair = _mm256_set1_epi32(load_pair(a + 2 * x));
      acc[x][0] = _mm256_add_epi32(acc[x][0], _mm256_madd_epi16(pair, b0));
      acc[x][1] = _mm256_add_epi32(acc[x][1], _mm256_madd_epi16(pair, b1));
      // One row after the other: with the pairs of all rows at once g++ has no registers left for the sums.
      asm volatile("" : "+x"(acc[x][0]), "+x"(acc[x][1]));
    }
    a += 2 * panel_rows;
    b += 2 * panel_columns;
  }
}

/// c (+)= (value(x, v) · row scale) · column scale, where value gives eight sums of row x.
template <int Rows, class Value>
[[gnu::always_inline]] inline void store_part(const Int8Part& t, const Value& value) {
#pragma GCC unroll 2
  for (int v = 0; v < 2; ++v) {
    const int64_t column = v * StoreAvx2::width;
    if (column >= t.columns) break;
    const __m256 scale = StoreAvx2::load_scale(t.column_scale, column, t.column_stride, t.columns - column);
#pragma GCC unroll 8
    for (int x = 0; x < Rows; ++x) {
      const __m256 row = StoreAvx2::set(t.row_scale[x * t.row_stride]);
      StoreAvx2::store(t.c + x * t.ldc + column, t.columns - column, StoreAvx2::mul(StoreAvx2::mul(value(x, v), row), scale), t.add);
    }
  }
}

/// Element::block<Rows> on the rows that are left.
template <class Element, int Rows>
void rows_left(int64_t rows, const Int8Tile& t, const int16_t* a, const int8_t* b, int64_t i, int64_t j) {
  if (rows >= Rows)
    in_blocks<Rows, panel_columns>(t, i, j, [&](const Int8Part& part, int64_t q) {
      Element::template block<Rows>(part, a + q * t.a_step / 2, reinterpret_cast<const typename Element::Stored*>(b + q * t.b_step));
    });
  else if constexpr (Rows > 1)
    rows_left<Element, Rows - 1>(rows, t, a, b, i, j);
}

template <class Element>
void multiply(const Int8Tile& t) {
  const int64_t depth = pair_depth(t.k), width = sizeof(typename Element::Stored);
  for (int64_t j = 0; j < t.n; j += panel_columns) {
    const int8_t* panel = t.b + j * depth * width;
    NextPanel next(t, panel, t.n - j > panel_columns ? panel_columns * depth * width : 0, (t.m + panel_rows - 1) / panel_rows);
    for (int64_t i = 0; i < t.m; i += panel_rows, next.fetch_part())
      rows_left<Element, panel_rows>(t.m - i, t, static_cast<const int16_t*>(t.a) + i * depth, panel, i, j);
  }
}

}  // namespace
