// The f32 leaf for any vector type V: included by sgemm_leaf_avx2.cpp and _avx512.cpp.
//
// c is cut into panels of leaf_vectors * width columns. op(b)'s columns of a panel are copied into a buffer, zero-padded to
// whole vectors, then blocks of up to 6 rows keep their sums in registers: 6 x 4 (AVX-512) or 6 x 2 (AVX2) vectors, enough
// independent sums to hide the latency of the multiply-add, few enough for the registers. a is read where it lies. Masked
// loads and stores only where a vector is not whole: the AVX2 ones are slow.
#pragma once

#include "kernels/isa/sgemm_block.hpp"

namespace {

constexpr int leaf_k_block = 256;

struct LeafProblem {
  int m, k;
  const float* a;
  int64_t lda;
  bool trans_a;
  int64_t ldb;
  bool trans_b;
  int64_t ldc;
  float alpha;
  bool accumulate;
};

template <class V, int Vectors, bool TransA>
void leaf_rows(const LeafProblem& x, int k, const float* a, const float* panel, float* c, const BlockStore& store) {
  constexpr int block = 6;
  for (int i = 0; i < x.m; i += block)
    sgemm_block_rows<V, block, Vectors, TransA>(x.m - i < block ? x.m - i : block, k, a + i * (TransA ? 1 : x.lda), x.lda,
                                                panel, c + i * x.ldc, store);
}

template <class V, int Vectors>
void leaf_panel(const LeafProblem& x, int n, const float* b, float* c) {
  alignas(64) float panel[leaf_k_block * Vectors * V::width];
  for (int p = 0; p < x.k; p += leaf_k_block) {
    const int depth = x.k - p < leaf_k_block ? x.k - p : leaf_k_block;
    pack_panel<V>(SourceF32{}, depth, n, Vectors * V::width, b + (x.trans_b ? p : p * x.ldb), x.ldb, x.trans_b, panel);
    const BlockStore store{x.ldc, x.alpha, x.accumulate || p > 0, n - (Vectors - 1) * V::width};
    if (x.trans_a)
      leaf_rows<V, Vectors, true>(x, depth, x.a + p * x.lda, panel, c, store);
    else
      leaf_rows<V, Vectors, false>(x, depth, x.a + p, panel, c, store);
  }
}

/// The narrowest panel that holds n columns.
template <class V, int Vectors>
void leaf_columns(const LeafProblem& x, int n, const float* b, float* c) {
  if constexpr (Vectors > 1)
    if (n <= (Vectors - 1) * V::width) return leaf_columns<V, Vectors - 1>(x, n, b, c);
  leaf_panel<V, Vectors>(x, n, b, c);
}

template <class V>
void leaf_body(const LeafProblem& x, int n, const float* b, float* c) {
  constexpr int panel = V::leaf_vectors * V::width;
  if (x.k == 0 && !x.accumulate)
    for (int i = 0; i < x.m; ++i)
      for (int j = 0; j < n; ++j) c[i * x.ldc + j] = 0.0f;
  for (int j = 0; j < n; j += panel)
    leaf_columns<V, V::leaf_vectors>(x, n - j < panel ? n - j : panel, b + (x.trans_b ? j * x.ldb : j), c + j);
}

}  // namespace
