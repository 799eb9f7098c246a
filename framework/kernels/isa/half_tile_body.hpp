// Products of fp8 codes in float16: fused multiply-adds in f16 lanes for 128 steps, whose sums are promoted and go on in f32. For any
// vector type V that packs f32 tiles (float_tile_body.hpp) and any H of as many f16 lanes as V has columns in a panel.
//
// Operands are packed as f32 tiles are, then narrowed: e4m3fn times 2^-5, e5m2 times 2^-11, so that 128 products of the largest
// codes stay below the largest f16. e4m3fn is exact at that; of e5m2 what lies below 2^-12 rounds to multiples of 2^-13.
#pragma once

#include "kernels/isa/float_tile_body.hpp"
#include "kernels/isa/half_tile.hpp"

namespace {

constexpr int half_k = static_cast<int>(half_tile_k);

/// All rows by up to two panels of columns; b1 follows b by `next` elements.
template <class V, class H, int Rows, int Panels>
[[gnu::noinline]] void half_block(int k, const uint16_t* a, const uint16_t* b, int64_t next, float* c, const HalfStore& store) {
  typename H::Type acc[Rows][Panels];
#pragma GCC unroll 16
  for (int i = 0; i < Rows; ++i)
#pragma GCC unroll 2
    for (int v = 0; v < Panels; ++v) acc[i][v] = H::zero();
  for (int p = 0; p < k; ++p) {
    typename H::Type bv[Panels];
#pragma GCC unroll 2
    for (int v = 0; v < Panels; ++v) bv[v] = H::load(b + v * next);
#pragma GCC unroll 16
    for (int i = 0; i < Rows; ++i)
#pragma GCC unroll 2
      for (int v = 0; v < Panels; ++v) H::multiply_add(acc[i][v], a[i], bv[v]);
    a += V::tile_rows;
    b += H::width;
  }
#pragma GCC unroll 16
  for (int i = 0; i < Rows; ++i)
#pragma GCC unroll 2
    for (int v = 0; v < Panels; ++v) H::add_to(c + i * store.ldc + v * H::width, store.columns - v * H::width, acc[i][v], store.factor, store.add);
}

template <class V, class H, int Rows, int Panels>
void half_rows_left(int rows, int k, const uint16_t* a, const uint16_t* b, int64_t next, float* c, const HalfStore& store) {
  if (rows >= Rows)
    half_block<V, H, Rows, Panels>(k, a, b, next, c, store);
  else if constexpr (Rows > 1)
    half_rows_left<V, H, Rows - 1, Panels>(rows, k, a, b, next, c, store);
}

template <class V, class H>
void half_tile_body(const FloatTile& t) {
  constexpr int panel = V::tile_vectors * V::width, group = static_cast<int>(float_tile_columns), rows = V::tile_rows;
  static_assert(H::width == panel && group % (2 * panel) == 0);
  const int m = static_cast<int>(t.m);
  const auto padded = static_cast<int>(padded_rows(t.m));
  float* wide_a = t.scratch;
  float* wide_b = wide_a + half_tile_k * padded;
  auto* packed_a = reinterpret_cast<uint16_t*>(wide_b + half_tile_k * float_tile_columns);
  uint16_t* packed_b = packed_a + half_tile_k * padded;
  const float down_a = half_factor(t.a.type), down_b = half_factor(t.b.type);
  if (t.k == 0 && !t.add)
    for (int64_t i = 0; i < t.m; ++i)
      for (int64_t j = 0; j < t.n; ++j) t.c[i * t.ldc + j] = 0.0f;
  for (int64_t p = 0; p < t.k; p += half_k) {
    const int depth = t.k - p < half_k ? static_cast<int>(t.k - p) : half_k;
    pack_rows_of<V>(t.a, m, depth, p, wide_a);
    H::narrow(wide_a, (m + rows - 1) / rows * rows * depth, down_a, packed_a);
    for (int64_t j = 0; j < t.n; j += group) {
      const int columns = t.n - j < group ? static_cast<int>(t.n - j) : group;
      pack_columns_of<V>(t.b, columns, depth, p, j, wide_b);
      for (int x = 0; x < columns; x += panel) {
        const int here = columns - x < panel ? (columns - x + V::width - 1) / V::width * V::width : panel;
        for (int q = 0; q < depth; ++q) {
          uint16_t* to = packed_b + (x * depth + q * panel);
          H::narrow(wide_b + x * depth + q * here, here, down_b, to);
          for (int y = here; y < panel; ++y) to[y] = 0;
        }
      }
      for (int x = 0; x < columns; x += 2 * panel)
        for (int i = 0; i < m; i += rows) {
          const HalfStore store{t.ldc, columns - x, 1.0f / (down_a * down_b), t.add || p > 0};
          const uint16_t *a = packed_a + i * depth, *b = packed_b + x * depth;
          float* c = t.c + i * t.ldc + j + x;
          if (columns - x > panel)
            half_rows_left<V, H, rows, 2>(m - i, depth, a, b, int64_t{panel} * depth, c, store);
          else
            half_rows_left<V, H, rows, 1>(m - i, depth, a, b, 0, c, store);
        }
    }
  }
}

}  // namespace
