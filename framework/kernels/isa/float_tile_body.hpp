// An f32 tile for any vector type V: included by float_tile_avx2.cpp and _avx512.cpp.
//
// Blocks of 256 of the contracted axis: op(a)'s rows are packed into panels of tile_rows rows ([256][tile_rows], L2), then
// 128 columns of op(b) at a time into panels of tile_vectors vectors ([256][columns], L1 or L2), and register blocks of
// 12 x 2 (AVX-512) or 6 x 2 (AVX2) vectors run over both.
#pragma once

#include "kernels/isa/float_tile.hpp"
#include "kernels/isa/sgemm_block.hpp"

namespace {

constexpr int tile_k = static_cast<int>(float_tile_k);

/// Rows [0, m) of op(a), k columns: to[panel][p][row in panel], zero beyond m.
template <class V, class S>
void pack_rows(S s, int m, int k, const typename S::Element* a, int64_t lda, bool trans, float* to) {
  constexpr int rows = V::tile_rows;
  static_assert(float_tile_unit % rows == 0 && rows <= V::width);
  if (!trans) {
    for (int i = 0; i < m; i += rows, to += k * rows)
      for (int p = 0; p < k; p += V::width) {
        typename V::Type r[V::width];
        const typename S::Element* from = a + i * lda + p;
#pragma GCC unroll 16
        for (int x = 0; x < V::width; ++x)
          r[x] = x >= rows || x >= m - i ? V::zero() : k - p >= V::width ? V::load(s, from + x * lda) : V::load(s, from + x * lda, k - p);
        V::transpose(r);
#pragma GCC unroll 16
        for (int x = 0; x < V::width; ++x)
          if (x < k - p) V::store_tile_rows(to + (p + x) * rows, r[x]);
      }
    return;
  }
  // Eight rows of a across all panels, then the next eight: a column of panels would come back to each cache line of a
  // after a whole block, when lines that lie a power of two apart have pushed each other out.
  for (int p = 0; p < k; p += 8)
    for (int i = 0; i < m; i += rows)
      for (int x = p; x < k && x < p + 8; ++x) {
        const typename S::Element* from = a + x * lda + i;
        V::store_tile_rows(to + i * k + x * rows, m - i >= V::width ? V::load(s, from) : V::load(s, from, m - i));
      }
}

/// Up to float_tile_columns columns of op(b): panels of whole vectors, the last one only as wide as it must be.
template <class V, class S>
void pack_columns(S s, int n, int k, const typename S::Element* b, int64_t ldb, bool trans, float* to) {
  constexpr int panel = V::tile_vectors * V::width;
  const int whole = trans ? 0 : n / panel * panel;
  // A row of all whole panels after the other: a row's lines lie together, those of a panel are a row apart, and nothing fetches them ahead.
  for (int p = 0; p < (whole > 0 ? k : 0); ++p) {
    const typename S::Element* from = b + p * ldb;
    float* row = to + p * panel;
    for (int j = 0; j < whole; j += panel)
#pragma GCC unroll 4
      for (int v = 0; v < panel; v += V::width) V::store(row + j * k + v, V::load(s, from + j + v));
  }
  for (int j = whole; j < n; j += panel) {
    const int columns = n - j < panel ? n - j : panel;
    pack_panel<V>(s, k, columns, (columns + V::width - 1) / V::width * V::width, b + (trans ? j * ldb : j), ldb, trans, to + j * k);
  }
}

template <class S>
const typename S::Element* at(const FloatOperand& x, int64_t row, int64_t column) {
  return static_cast<const typename S::Element*>(x.data) + (x.trans ? column * x.ld + row : row * x.ld + column);
}

template <class V>
void pack_rows_of(const FloatOperand& a, int m, int k, int64_t p, float* to) {
  switch (a.type) {
    case FloatSource::f32: return pack_rows<V>(SourceF32{}, m, k, at<SourceF32>(a, 0, p), a.ld, a.trans, to);
    case FloatSource::bf16: return pack_rows<V>(SourceBf16{}, m, k, at<SourceBf16>(a, 0, p), a.ld, a.trans, to);
    case FloatSource::i8: return pack_rows<V>(SourceI8{}, m, k, at<SourceI8>(a, 0, p), a.ld, a.trans, to);
    case FloatSource::e4m3fn: return pack_rows<V>(SourceE4m3fn{}, m, k, at<SourceE4m3fn>(a, 0, p), a.ld, a.trans, to);
    case FloatSource::e5m2: return pack_rows<V>(SourceE5m2{}, m, k, at<SourceE5m2>(a, 0, p), a.ld, a.trans, to);
    case FloatSource::e4m3fnuz: return pack_rows<V>(SourceE4m3fnuz{}, m, k, at<SourceE4m3fnuz>(a, 0, p), a.ld, a.trans, to);
    case FloatSource::e5m2fnuz: return pack_rows<V>(SourceE5m2fnuz{}, m, k, at<SourceE5m2fnuz>(a, 0, p), a.ld, a.trans, to);
    case FloatSource::e2m1: return pack_rows<V>(SourceE2m1{}, m, k, at<SourceE2m1>(a, 0, p), a.ld, a.trans, to);
  }
}

template <class V>
void pack_columns_of(const FloatOperand& b, int n, int k, int64_t p, int64_t j, float* to) {
  switch (b.type) {
    case FloatSource::f32: return pack_columns<V>(SourceF32{}, n, k, at<SourceF32>(b, p, j), b.ld, b.trans, to);
    case FloatSource::bf16: return pack_columns<V>(SourceBf16{}, n, k, at<SourceBf16>(b, p, j), b.ld, b.trans, to);
    case FloatSource::i8: return pack_columns<V>(SourceI8{}, n, k, at<SourceI8>(b, p, j), b.ld, b.trans, to);
    case FloatSource::e4m3fn: return pack_columns<V>(SourceE4m3fn{}, n, k, at<SourceE4m3fn>(b, p, j), b.ld, b.trans, to);
    case FloatSource::e5m2: return pack_columns<V>(SourceE5m2{}, n, k, at<SourceE5m2>(b, p, j), b.ld, b.trans, to);
    case FloatSource::e4m3fnuz: return pack_columns<V>(SourceE4m3fnuz{}, n, k, at<SourceE4m3fnuz>(b, p, j), b.ld, b.trans, to);
    case FloatSource::e5m2fnuz: return pack_columns<V>(SourceE5m2fnuz{}, n, k, at<SourceE5m2fnuz>(b, p, j), b.ld, b.trans, to);
    case FloatSource::e2m1: return pack_columns<V>(SourceE2m1{}, n, k, at<SourceE2m1>(b, p, j), b.ld, b.trans, to);
  }
}

/// Calls scale(scales of its block, first step, end) for each stretch of packed steps [p, p + k) within one block.
template <class Scale>
void each_block(const FloatOperand& x, int64_t block, int64_t p, int k, const Scale& scale) {
  for (int64_t at = p; at < p + k;) {
    const int64_t q = at / block, next = (q + 1) * block < p + k ? (q + 1) * block : p + k;
    scale(x.scale + q * x.scale_step, static_cast<int>(at - p), static_cast<int>(next - p));
    at = next;
  }
}

template <class V>
typename V::Type lane_scales(const FloatOperand& x, const float* scale, int lane, int lanes) {
  return x.scale_stride == 0 ? V::set(*scale) : lanes - lane >= V::width ? V::load(scale + lane) : V::load(SourceF32{}, scale + lane, lanes - lane);
}

/// Packed rows times their scales, in the cache that they have just been written to. A panel's last step reads beyond it, into
/// the columns' part of the scratch.
template <class V>
void scale_rows(const FloatOperand& a, int64_t block, int m, int64_t p, int k, float* packed) {
  constexpr int rows = V::tile_rows;
  for (int i = 0; i < m; i += rows)
    each_block(a, block, p, k, [&](const float* scale, int first, int end) {
      const typename V::Type s = lane_scales<V>(a, scale, i, m);
      for (float* at = packed + i * k + first * rows; at < packed + i * k + end * rows; at += rows) V::store_tile_rows(at, V::mul(V::load(at), s));
    });
}

/// The same for packed columns.
template <class V>
void scale_columns(const FloatOperand& b, int64_t block, int n, int64_t j, int64_t p, int k, float* packed) {
  constexpr int panel = V::tile_vectors * V::width;
  for (int x = 0; x < n; x += panel) {
    const int columns = n - x < panel ? n - x : panel, padded = (columns + V::width - 1) / V::width * V::width;
    each_block(b, block, p, k, [&](const float* scale, int first, int end) {
      for (int v = 0; v < padded; v += V::width) {
        const typename V::Type s = lane_scales<V>(b, scale + j * b.scale_stride, x + v, n);
        for (int y = first; y < end; ++y) {
          float* at = packed + x * k + y * padded + v;
          V::store(at, V::mul(V::load(at), s));
        }
      }
    });
  }
}

/// All row panels by one column panel of n columns.
template <class V, int Vectors>
void multiply_panel(int m, int n, int k, const float* a, const float* b, float* c, int64_t ldc, bool add) {
  if constexpr (Vectors > 1)
    if (n <= (Vectors - 1) * V::width) return multiply_panel<V, Vectors - 1>(m, n, k, a, b, c, ldc, add);
  constexpr int rows = V::tile_rows;
  const BlockStore store{ldc, 1.0f, add, n - (Vectors - 1) * V::width};
  for (int i = 0; i < m; i += rows)
    sgemm_block_rows<V, rows, Vectors, true>(m - i < rows ? m - i : rows, k, a + i * k, rows, b, c + i * ldc, store);
}

template <class V>
void float_tile_body(const FloatTile& t) {
  constexpr int panel = V::tile_vectors * V::width;
  constexpr int group = static_cast<int>(float_tile_columns);
  static_assert(group % panel == 0);
  const int m = static_cast<int>(t.m);
  float* packed_a = t.scratch;
  float* packed_b = t.scratch + float_tile_k * padded_rows(t.m);
  if (t.k == 0 && !t.add)
    for (int64_t i = 0; i < t.m; ++i)
      for (int64_t j = 0; j < t.n; ++j) t.c[i * t.ldc + j] = 0.0f;
  for (int64_t p = 0; p < t.k; p += tile_k) {
    const int depth = t.k - p < tile_k ? static_cast<int>(t.k - p) : tile_k;
    pack_rows_of<V>(t.a, m, depth, p, packed_a);
    if (t.a.scale != nullptr) scale_rows<V>(t.a, t.block, m, p, depth, packed_a);
    for (int64_t j = 0; j < t.n; j += group) {
      const int columns = t.n - j < group ? static_cast<int>(t.n - j) : group;
      pack_columns_of<V>(t.b, columns, depth, p, j, packed_b);
      if (t.b.scale != nullptr) scale_columns<V>(t.b, t.block, columns, j, p, depth, packed_b);
      for (int x = 0; x < columns; x += panel)
        multiply_panel<V, V::tile_vectors>(m, columns - x < panel ? columns - x : panel, depth, packed_a, packed_b + x * depth,
                                           t.c + j + x, t.ldc, t.add || p > 0);
    }
  }
}

}  // namespace
