// int8 for vpdpbusd (unsigned by signed bytes, four steps at a time), for any vector type V: included by
// int8_avxvnni.cpp and int8_avx512vnni.cpp. In an anonymous namespace, as V is.
//
// The left operand is made unsigned when it is packed, by adding 128 (xor 0x80): the sum is then too large by 128 times the
// column's sum, which pack_columns wrote down and the store takes away. All of it modulo 2^32, so -128 is exact too.
#pragma once

#include "kernels/isa/int8_next_panel.hpp"
#include "kernels/isa/int8_tile.hpp"
#include "kernels/isa/transpose_8x8.hpp"

#include <immintrin.h>

namespace {

using namespace kvant::isa;

constexpr int vnni_rows = 8;  // of a panel of the left operand

/// The first n bytes (n may be below 0 or above the width), then zeros; reads no others.
__m256i load_bytes_32(const int8_t* x, int64_t n) {
  if (n >= 32) return _mm256_loadu_si256(reinterpret_cast<const __m256i*>(x));
  alignas(32) int8_t part[32] = {};
  for (int64_t i = 0; i < n; ++i) part[i] = x[i];
  return _mm256_load_si256(reinterpret_cast<const __m256i*>(part));
}

__m128i load_bytes_8(const int8_t* x, int64_t n) {
  if (n >= 8) return _mm_loadl_epi64(reinterpret_cast<const __m128i*>(x));
  alignas(8) int8_t part[8] = {};
  for (int64_t i = 0; i < n; ++i) part[i] = x[i];
  return _mm_loadl_epi64(reinterpret_cast<const __m128i*>(part));
}

/// Four bytes as one integer.
[[maybe_unused]] int32_t load_four(const void* x) {
  int32_t four;
  __builtin_memcpy(&four, x, sizeof(four));
  return four;
}

/// Sums of four bytes each.
__m256i sum_of_fours(__m256i x) {
  return _mm256_madd_epi16(_mm256_maddubs_epi16(_mm256_set1_epi8(1), x), _mm256_set1_epi16(1));
}

/// Where the four steps p .. p + 3 of lane i lie; panels of Panel lanes, the last one `lanes` rounded up to Unit.
template <int Panel, int Unit>
struct FourStepPlace {
  int8_t* to;
  int64_t lanes, depth;

  int64_t width(int64_t i) const {
    const int64_t left = (lanes - i / Panel * Panel + Unit - 1) / Unit * Unit;
    return left < Panel ? left : Panel;
  }
  int8_t* operator()(int64_t i, int64_t p) const { return to + i / Panel * Panel * depth + p * width(i) + i % Panel * 4; }
};

/// Steps lie together in the source: 8 lanes of 32 steps at a time are transposed as 32-bit groups.
template <class Place>
void pack_fours_transposed(const Int8Source& from, int64_t lanes, int64_t k, int64_t i, const Place& place, char flip, int32_t* sums) {
  const __m256i bias = _mm256_set1_epi8(flip);
  __m256i sum = _mm256_setzero_si256();
  const int64_t step = place.width(i) * 4;
  for (int64_t p = 0; p < place.depth; p += 32) {
    __m256i r[8];
#pragma GCC unroll 8
    for (int x = 0; x < 8; ++x) {
      r[x] = i + x < lanes ? load_bytes_32(from.data + (i + x) * from.ld + p, k - p) : _mm256_setzero_si256();
      r[x] = _mm256_xor_si256(r[x], bias);
    }
    transpose_8x8(r);
    int8_t* to = place(i, p);
#pragma GCC unroll 8
    for (int x = 0; x < 8; ++x) {
      if (p + 4 * x >= place.depth) break;
      _mm256_storeu_si256(reinterpret_cast<__m256i*>(to + x * step), r[x]);
      sum = _mm256_add_epi32(sum, sum_of_fours(r[x]));
    }
  }
  if (sums != nullptr) _mm256_storeu_si256(reinterpret_cast<__m256i*>(sums + i), sum);
}

/// Lanes lie together in the source: 8 lanes of steps p .. p + 3, interleaved.
template <class Place>
void pack_four_rows(const Int8Source& from, int64_t lanes, int64_t k, int64_t i, int64_t p, const Place& place, char flip, int32_t* sums) {
  __m128i r[4];
#pragma GCC unroll 4
  for (int x = 0; x < 4; ++x) r[x] = p + x < k ? load_bytes_8(from.data + (p + x) * from.ld + i, lanes - i) : _mm_setzero_si128();
  const __m128i low = _mm_unpacklo_epi8(r[0], r[1]), high = _mm_unpacklo_epi8(r[2], r[3]);
  const __m256i fours = _mm256_xor_si256(_mm256_set_m128i(_mm_unpackhi_epi16(low, high), _mm_unpacklo_epi16(low, high)), _mm256_set1_epi8(flip));
  _mm256_storeu_si256(reinterpret_cast<__m256i*>(place(i, p)), fours);
  if (sums == nullptr) return;
  auto* sum = reinterpret_cast<__m256i*>(sums + i);
  _mm256_storeu_si256(sum, _mm256_add_epi32(_mm256_loadu_si256(sum), sum_of_fours(fours)));
}

template <int Panel, int Unit>
void pack_fours(const Int8Source& from, int64_t lanes, int64_t k, int8_t* to, char flip, int32_t* sums) {
  static_assert(Panel % 8 == 0 && Unit % 8 == 0);
  const FourStepPlace<Panel, Unit> place{to, lanes, (k + 3) / 4 * 4};
  const int64_t padded = (lanes + Unit - 1) / Unit * Unit;
  if (!from.steps_outer) {
    for (int64_t i = 0; i < padded; i += 8) pack_fours_transposed(from, lanes, k, i, place, flip, sums);
    return;
  }
  for (int64_t i = 0; sums != nullptr && i < padded; ++i) sums[i] = 0;
  // Sixteen steps of all lanes, then the next: a cache line of the source is used up before it is left.
  for (int64_t begin = 0; begin < place.depth; begin += 16)
    for (int64_t i = 0; i < padded; i += 8)
      for (int64_t p = begin; p < place.depth && p < begin + 16; p += 4) pack_four_rows(from, lanes, k, i, p, place, flip, sums);
}

/// acc over k, then stored: Rows x Vectors vectors. a points at the first row's group in its panel. Not inlined, so that
/// nothing but the sums, the columns and one row's group lives in registers in the loop.
template <class V, int Rows, int Vectors>
[[gnu::noinline]] void vnni_block(const Int8Part& t, const uint8_t* a, const int8_t* b) {
  typename V::Sum acc[Rows][Vectors];
#pragma GCC unroll 8
  for (int x = 0; x < Rows; ++x)
#pragma GCC unroll 8
    for (int v = 0; v < Vectors; ++v) acc[x][v] = V::zero();
  // c may come from far: asked for now, it is there when the sums are finished.
#pragma GCC unroll 8
  for (int x = 0; x < Rows; ++x)
#pragma GCC unroll 8
    for (int v = 0; v < Vectors; ++v) __builtin_prefetch(t.c + x * t.ldc + v * V::width);
  for (int64_t p = 0; p < t.k; p += 4) {
    typename V::Sum bv[Vectors];
#pragma GCC unroll 8
    for (int v = 0; v < Vectors; ++v) bv[v] = V::load(b + v * V::width * 4);
#pragma GCC unroll 8
    for (int x = 0; x < Rows; ++x) {
      const typename V::Sum four = V::broadcast(a + 4 * x);
#pragma GCC unroll 8
      for (int v = 0; v < Vectors; ++v) V::multiply_add(acc[x][v], four, bv[v]);
    }
    a += 4 * vnni_rows;
    b += 4 * Vectors * V::width;
  }
#pragma GCC unroll 8
  for (int v = 0; v < Vectors; ++v) {
    const int64_t column = v * V::width;
    const typename V::Sum excess = V::times_128(V::load(t.sums + column));
    const typename V::Float scale = V::load_scale(t.column_scale, column, t.column_stride, t.columns - column);
#pragma GCC unroll 8
    for (int x = 0; x < Rows; ++x) {
      const typename V::Float row = V::set(t.row_scale[x * t.row_stride]);
      V::store(t.c + x * t.ldc + column, t.columns - column, V::mul(V::mul(V::to_float(V::subtract(acc[x][v], excess)), row), scale), t.add);
    }
  }
}

template <class V, int Rows, int Vectors>
void vnni_rows_left(int64_t rows, const Int8Tile& t, const uint8_t* a, const int8_t* b, int64_t i, int64_t j) {
  if (rows >= Rows)
    in_blocks<Rows, Vectors * V::width>(
        t, i, j, [&](const Int8Part& part, int64_t q) { vnni_block<V, Rows, Vectors>(part, a + q * t.a_step, b + q * t.b_step); });
  else if constexpr (Rows > 1)
    vnni_rows_left<V, Rows - 1, Vectors>(rows, t, a, b, i, j);
}

/// All rows by one column panel.
template <class V, int Vectors>
void vnni_panel(const Int8Tile& t, const int8_t* b, int64_t j) {
  if constexpr (Vectors > 1)
    if (t.n - j <= (Vectors - 1) * V::width) return vnni_panel<V, Vectors - 1>(t, b, j);
  const int64_t depth = (t.k + 3) / 4 * 4;
  NextPanel next(t, b, t.n - j > Vectors * V::width ? Vectors * V::width * depth : 0, (t.m + V::rows - 1) / V::rows);
  for (int64_t i = 0; i < t.m; i += V::rows, next.fetch_part())
    vnni_rows_left<V, V::rows, Vectors>(t.m - i, t, static_cast<const uint8_t*>(t.a) + i / vnni_rows * vnni_rows * depth + i % vnni_rows * 4, b, i, j);
}

template <class V>
void vnni_multiply(const Int8Tile& t) {
  constexpr int panel = V::vectors * V::width;
  const int64_t depth = (t.k + 3) / 4 * 4;
  for (int64_t j = 0; j < t.n; j += panel) vnni_panel<V, V::vectors>(t, t.b + j * depth, j);
}

void vnni_pack_rows(const Int8Source& from, int64_t m, int64_t k, void* to) {
  pack_fours<vnni_rows, vnni_rows>(from, m, k, static_cast<int8_t*>(to), static_cast<char>(0x80), nullptr);
}

template <class V>
void vnni_pack_columns(const Int8Source& from, int64_t n, int64_t k, int8_t* to, int32_t* sums) {
  pack_fours<V::vectors * V::width, V::width>(from, n, k, to, 0, sums);
}

}  // namespace
