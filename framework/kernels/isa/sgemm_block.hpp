// The register block that every f32 product here runs in, and the packing of a right-hand side, for any vector type V
// (vector_avx2.hpp, vector_avx512.hpp). In an anonymous namespace, as V is.
#pragma once

#include "kernels/isa/float_sources.hpp"

#include <stdint.h>

namespace {

using namespace kvant::isa;

/// What is done with finished sums: c = alpha * acc (+ c); the last vector of a row has `last` lanes.
struct BlockStore {
  int64_t ldc;
  float alpha;
  bool add;
  int last;
};

/// acc[i][v] over k, then stored. a points at its first element; b is packed: Vectors * width columns a row.
/// Columns: rows of op(a) lie next to each other (element (i,p) at a[p*lda + i]), else element (i,p) is at a[i*lda + p].
/// Not inlined, and what the store needs is read from memory after the loop: a mask or a factor that lives in a register
/// beside the sums makes the compiler spill one of them in the AVX2 loop, which halves its speed.
template <class V, int Rows, int Vectors, bool Columns>
[[gnu::noinline]] void sgemm_block(int k, const float* a, int64_t lda, const float* b, float* c, const BlockStore& store) {
  static_assert(Columns || Rows <= 6, "x86 addresses scale an index by 1 or 2, not by 3: rows are addressed from a and a3");
  typename V::Type acc[Rows][Vectors];
#pragma GCC unroll 16
  for (int i = 0; i < Rows; ++i)
#pragma GCC unroll 16
    for (int v = 0; v < Vectors; ++v) acc[i][v] = V::zero();
  // c may come from far: asked for now, it is there when the sums are finished.
#pragma GCC unroll 16
  for (int i = 0; i < Rows; ++i)
#pragma GCC unroll 16
    for (int v = 0; v < Vectors; ++v) __builtin_prefetch(c + i * store.ldc + v * V::width);
  const float* a3 = a + 3 * lda;
  for (int p = 0; p < k; ++p) {
    typename V::Type bv[Vectors];
#pragma GCC unroll 16
    for (int v = 0; v < Vectors; ++v) bv[v] = V::load(b + v * V::width);
    b += Vectors * V::width;
#pragma GCC unroll 16
    for (int i = 0; i < Rows; ++i) {
      const typename V::Type x = V::broadcast(Columns ? a + i : i < 3 ? a + i * lda : a3 + (i - 3) * lda);
#pragma GCC unroll 16
      for (int v = 0; v < Vectors; ++v) acc[i][v] = V::fma(x, bv[v], acc[i][v]);
    }
    a += Columns ? lda : 1;
    a3 += 1;
  }
  const typename V::Type scale = V::set(store.alpha);
  const bool whole = store.last >= V::width;
  const typename V::Mask last = V::first(store.last);
#pragma GCC unroll 16
  for (int i = 0; i < Rows; ++i)
#pragma GCC unroll 16
    for (int v = 0; v < Vectors; ++v) {
      float* to = c + i * store.ldc + v * V::width;
      if (whole || v < Vectors - 1)
        V::store(to, store.add ? V::fma(scale, acc[i][v], V::load(to)) : V::mul(scale, acc[i][v]));
      else
        V::store(to, last, store.add ? V::fma(scale, acc[i][v], V::load(to, last)) : V::mul(scale, acc[i][v]));
    }
}

/// `rows` <= Rows of them.
template <class V, int Rows, int Vectors, bool Columns>
void sgemm_block_rows(int rows, int k, const float* a, int64_t lda, const float* b, float* c, const BlockStore& store) {
  if (rows == Rows)
    sgemm_block<V, Rows, Vectors, Columns>(k, a, lda, b, c, store);
  else if constexpr (Rows > 1)
    sgemm_block_rows<V, Rows - 1, Vectors, Columns>(rows, k, a, lda, b, c, store);
}

/// Copies columns [0, n) of op(b) (k rows) to panel[p * padded + j] as f32, zero beyond n; padded is whole vectors.
template <class V, class S>
void pack_panel(S s, int k, int n, int padded, const typename S::Element* b, int64_t ldb, bool trans, float* panel) {
  if (!trans) {
    for (int p = 0; p < k; ++p, b += ldb, panel += padded)
      for (int j = 0; j < padded; j += V::width) V::store(panel + j, n - j >= V::width ? V::load(s, b + j) : V::load(s, b + j, n - j));
    return;
  }
  for (int j = 0; j < padded; j += V::width)
    for (int p = 0; p < k; p += V::width) {
      typename V::Type r[V::width];
      const typename S::Element* from = b + j * ldb + p;
#pragma GCC unroll 16
      for (int i = 0; i < V::width; ++i)
        r[i] = i >= n - j ? V::zero() : k - p >= V::width ? V::load(s, from + i * ldb) : V::load(s, from + i * ldb, k - p);
      V::transpose(r);
#pragma GCC unroll 16
      for (int i = 0; i < V::width; ++i)
        if (i < k - p) V::store(panel + (p + i) * padded + j, r[i]);
    }
}

}  // namespace
