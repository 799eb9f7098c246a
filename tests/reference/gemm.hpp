// Matrix products in double: what kernels/gemm.hpp, grouped_gemm.hpp and scaled_gemm.hpp are compared with. Row-major and dense.
#pragma once

#include <cstddef>
#include <vector>

namespace kvant::reference {

using Values = std::vector<double>;

/// Rows [first, first + m) of op(a) by op(b) (from element b_at on): a [M,k] or [k,M], b [k,n] or [n,k].
struct Product {
  std::size_t m = 0, n = 0, k = 0;
  bool trans_a = false, trans_b = false;
};

inline double at(const Values& x, bool trans, std::size_t rows, std::size_t cols, std::size_t i, std::size_t j) {
  return trans ? x[j * rows + i] : x[i * cols + j];
}

/// (op(a) · op(b))[i,j] * row_scale[i] * column_scale[j]; empty scales are 1, scales of one element are for all.
inline Values gemm(const Product& p, const Values& a, const Values& b, const Values& row_scale = {}, const Values& column_scale = {}) {
  const auto scale = [](const Values& s, std::size_t i) { return s.empty() ? 1.0 : s.size() == 1 ? s[0] : s[i]; };
  Values c(p.m * p.n);
  for (std::size_t i = 0; i < p.m; ++i)
    for (std::size_t j = 0; j < p.n; ++j) {
      double sum = 0.0;
      for (std::size_t q = 0; q < p.k; ++q) sum += at(a, p.trans_a, p.m, p.k, i, q) * at(b, p.trans_b, p.k, p.n, q, j);
      c[i * p.n + j] = sum * scale(row_scale, i) * scale(column_scale, j);
    }
  return c;
}

inline Values part(const Values& x, std::size_t first, std::size_t count) {
  return Values(x.begin() + static_cast<std::ptrdiff_t>(first), x.begin() + static_cast<std::ptrdiff_t>(first + count));
}

/// Scales of group g: one for all, one per index, or [G, count].
inline Values scale_of_group(const Values& s, std::size_t g, std::size_t count) {
  const bool per_group = s.size() > 1 && s.size() > count;
  return part(s, per_group ? g * count : 0, per_group ? count : s.size());
}

/// Rows offsets[g] .. offsets[g+1] of a [R,k] by op(b[g]); rows beyond the last group are 0.
inline Values grouped_gemm(bool trans_b, std::size_t k, std::size_t n, const Values& a, const Values& b, const std::vector<int>& offsets,
                           const Values& row_scale = {}, const Values& column_scale = {}) {
  Values c(a.size() / k * n, 0.0);
  for (std::size_t g = 0; g + 1 < offsets.size(); ++g) {
    const auto first = static_cast<std::size_t>(offsets[g]), rows = static_cast<std::size_t>(offsets[g + 1]) - first;
    const Values scale = part(row_scale, row_scale.size() > 1 ? first : 0, row_scale.size() > 1 ? rows : row_scale.size());
    const Values y = gemm({rows, n, k, false, trans_b}, part(a, first * k, rows * k), part(b, g * k * n, k * n), scale, scale_of_group(column_scale, g, n));
    for (std::size_t i = 0; i < y.size(); ++i) c[first * n + i] = y[i];
  }
  return c;
}

/// dw[g] = a[rows of g]^T · dy[rows of g].
inline Values grouped_gemm_wgrad(std::size_t k, std::size_t n, const Values& a, const Values& dy, const std::vector<int>& offsets,
                                 const Values& row_scale = {}, const Values& column_scale = {}) {
  Values dw;
  for (std::size_t g = 0; g + 1 < offsets.size(); ++g) {
    const auto first = static_cast<std::size_t>(offsets[g]), rows = static_cast<std::size_t>(offsets[g + 1]) - first;
    const Values w = gemm({k, n, rows, true, false}, part(a, first * k, rows * k), part(dy, first * n, rows * n), row_scale, scale_of_group(column_scale, g, n));
    dw.insert(dw.end(), w.begin(), w.end());
  }
  return dw;
}

}  // namespace kvant::reference
