// The f32 leaf for any vector type V (width, load, mask ...): included by sgemm_leaf_avx2.cpp and _avx512.cpp, each with
// its own V in an anonymous namespace, so that no symbol of it is shared between files built for different ISAs.
//
// c is cut into panels of V::vectors * V::width columns. op(b)'s columns of a panel are copied into a buffer, zero-padded
// to whole vectors, then blocks of up to 6 rows keep their sums in registers: 6 x 4 (AVX-512) or 6 x 2 (AVX2) vectors,
// enough independent sums to hide the latency of the multiply-add, few enough for the registers. Masked loads and stores only
// where a vector is not whole: the AVX2 ones are slow.
#pragma once

#include <stdint.h>

namespace {

constexpr int leaf_rows = 6;
constexpr int leaf_k_block = 256;

/// What is done with finished sums: c = alpha * acc (+ c); the last vector of a row has `last` lanes.
struct LeafStore {
  int64_t ldc;
  float alpha;
  bool add;
  int last;
};

/// One block of rows: acc[i][v] over k, then stored. a points at its first element; b is the panel.
/// Trans: rows of op(a) lie next to each other (element (i,p) at a[p*lda + i]), else at a[i*lda + p].
/// Not inlined, and what the store needs is read from memory after the loop: a mask or a factor that lives in a register
/// beside the sums makes the compiler spill one of them in the AVX2 loop, which halves its speed.
template <class V, int Rows, int Vectors, bool Trans>
[[gnu::noinline]] void leaf_block(int k, const float* a, int64_t lda, const float* b, float* c, const LeafStore& store) {
  typename V::Type acc[Rows][Vectors];
#pragma GCC unroll 8
  for (int i = 0; i < Rows; ++i)
#pragma GCC unroll 8
    for (int v = 0; v < Vectors; ++v) acc[i][v] = V::zero();
  // Rows 0..2 are addressed from a, 3..5 from a3: x86 addresses scale an index by 1 or 2, not by 3.
  const float* a3 = a + 3 * lda;
  for (int p = 0; p < k; ++p) {
    typename V::Type bv[Vectors];
#pragma GCC unroll 8
    for (int v = 0; v < Vectors; ++v) bv[v] = V::load(b + v * V::width);
    b += Vectors * V::width;
#pragma GCC unroll 8
    for (int i = 0; i < Rows; ++i) {
      const typename V::Type x = V::broadcast(Trans ? a + i : i < 3 ? a + i * lda : a3 + (i - 3) * lda);
#pragma GCC unroll 8
      for (int v = 0; v < Vectors; ++v) acc[i][v] = V::fma(x, bv[v], acc[i][v]);
    }
    a += Trans ? lda : 1;
    a3 += 1;
  }
  const typename V::Type scale = V::set(store.alpha);
  const bool whole = store.last >= V::width;
  const typename V::Mask last = V::first(store.last);
#pragma GCC unroll 8
  for (int i = 0; i < Rows; ++i)
#pragma GCC unroll 8
    for (int v = 0; v < Vectors; ++v) {
      float* to = c + i * store.ldc + v * V::width;
      if (whole || v < Vectors - 1)
        V::store(to, store.add ? V::fma(scale, acc[i][v], V::load(to)) : V::mul(scale, acc[i][v]));
      else
        V::store(to, last, store.add ? V::fma(scale, acc[i][v], V::load(to, last)) : V::mul(scale, acc[i][v]));
    }
}

template <class V, int Vectors, bool Trans>
void leaf_rows_of_panel(int m, int k, const float* a, int64_t lda, const float* b, float* c, const LeafStore& store) {
  const int64_t row = Trans ? 1 : lda;
  int i = 0;
  for (; i + leaf_rows <= m; i += leaf_rows)
    leaf_block<V, leaf_rows, Vectors, Trans>(k, a + i * row, lda, b, c + i * store.ldc, store);
  a += i * row;
  c += i * store.ldc;
  switch (m - i) {
    case 1: leaf_block<V, 1, Vectors, Trans>(k, a, lda, b, c, store); break;
    case 2: leaf_block<V, 2, Vectors, Trans>(k, a, lda, b, c, store); break;
    case 3: leaf_block<V, 3, Vectors, Trans>(k, a, lda, b, c, store); break;
    case 4: leaf_block<V, 4, Vectors, Trans>(k, a, lda, b, c, store); break;
    case 5: leaf_block<V, 5, Vectors, Trans>(k, a, lda, b, c, store); break;
    default: break;
  }
}

/// Copies columns [0, n) of op(b) (k rows) into panel[p * padded + j], zero beyond n.
template <class V>
void leaf_pack(int k, int n, int padded, const float* b, int64_t ldb, bool trans, float* panel) {
  if (!trans) {
    for (int p = 0; p < k; ++p, b += ldb, panel += padded)
      for (int j = 0; j < padded; j += V::width) V::store(panel + j, n - j >= V::width ? V::load(b + j) : V::load(b + j, V::first(n - j)));
    return;
  }
  for (int j = 0; j < padded; j += V::width)
    for (int p = 0; p < k; p += V::width)
      V::transpose(b + j * ldb + p, ldb, n - j, k - p, panel + p * padded + j, padded);
}

template <class V, int Vectors>
void leaf_panel(int m, int n, int k, const float* a, int64_t lda, bool trans_a, const float* b, int64_t ldb, bool trans_b,
                float* c, int64_t ldc, float alpha, bool accumulate) {
  alignas(64) float panel[leaf_k_block * Vectors * V::width];
  for (int p = 0; p < k; p += leaf_k_block) {
    const int depth = k - p < leaf_k_block ? k - p : leaf_k_block;
    leaf_pack<V>(depth, n, Vectors * V::width, b + (trans_b ? p : p * ldb), ldb, trans_b, panel);
    const LeafStore store{ldc, alpha, accumulate || p > 0, n - (Vectors - 1) * V::width};
    if (trans_a)
      leaf_rows_of_panel<V, Vectors, true>(m, depth, a + p * lda, lda, panel, c, store);
    else
      leaf_rows_of_panel<V, Vectors, false>(m, depth, a + p, lda, panel, c, store);
  }
}

template <class V>
void leaf_body(int m, int n, int k, const float* a, int64_t lda, bool trans_a, const float* b, int64_t ldb, bool trans_b,
               float* c, int64_t ldc, float alpha, bool accumulate) {
  if (k == 0 && !accumulate)
    for (int i = 0; i < m; ++i)
      for (int j = 0; j < n; ++j) c[i * ldc + j] = 0.0f;
  for (int j = 0; j < n; j += V::vectors * V::width) {
    const int columns = n - j < V::vectors * V::width ? n - j : V::vectors * V::width;
    const float* bj = b + (trans_b ? j * ldb : j);
    if constexpr (V::vectors == 4) {
      switch ((columns + V::width - 1) / V::width) {
        case 1: leaf_panel<V, 1>(m, columns, k, a, lda, trans_a, bj, ldb, trans_b, c + j, ldc, alpha, accumulate); break;
        case 2: leaf_panel<V, 2>(m, columns, k, a, lda, trans_a, bj, ldb, trans_b, c + j, ldc, alpha, accumulate); break;
        case 3: leaf_panel<V, 3>(m, columns, k, a, lda, trans_a, bj, ldb, trans_b, c + j, ldc, alpha, accumulate); break;
        default: leaf_panel<V, 4>(m, columns, k, a, lda, trans_a, bj, ldb, trans_b, c + j, ldc, alpha, accumulate);
      }
    } else if (columns <= V::width) {
      leaf_panel<V, 1>(m, columns, k, a, lda, trans_a, bj, ldb, trans_b, c + j, ldc, alpha, accumulate);
    } else {
      leaf_panel<V, 2>(m, columns, k, a, lda, trans_a, bj, ldb, trans_b, c + j, ldc, alpha, accumulate);
    }
  }
}

}  // namespace
