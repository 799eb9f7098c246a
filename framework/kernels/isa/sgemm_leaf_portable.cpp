// f32 leaf in plain C++: the twin of the others, and what other processors run. Same order of sums, so same results.
#include "kernels/isa/leaves.hpp"

namespace kvant::isa {
namespace {

constexpr int width = 64, k_block = 256;

/// One row of c, n <= width columns, k <= k_block: sums in a small array that the compiler keeps in registers. b is a
/// panel of `width` columns, zero beyond n.
void row(int n, int k, const float* a, int64_t step_a, const float* b, float* c, float alpha, bool add) {
  float acc[width] = {};
  for (int p = 0; p < k; ++p)
    for (int j = 0; j < width; ++j) acc[j] = __builtin_fmaf(a[p * step_a], b[p * width + j], acc[j]);
  for (int j = 0; j < n; ++j) c[j] = add ? __builtin_fmaf(alpha, acc[j], c[j]) : alpha * acc[j];
}

}  // namespace

void sgemm_portable(int m, int n, int k, const float* a, int64_t lda, bool trans_a, const float* b, int64_t ldb,
                    bool trans_b, float* c, int64_t ldc, float alpha, bool accumulate) {
  const int64_t row_a = trans_a ? 1 : lda, col_a = trans_a ? lda : 1;
  const int64_t row_b = trans_b ? 1 : ldb, col_b = trans_b ? ldb : 1;
  float panel[k_block * width];
  if (k == 0 && !accumulate)
    for (int i = 0; i < m; ++i)
      for (int j = 0; j < n; ++j) c[i * ldc + j] = 0.0f;
  for (int j = 0; j < n; j += width)
    for (int p = 0; p < k; p += k_block) {
      const int columns = n - j < width ? n - j : width, depth = k - p < k_block ? k - p : k_block;
      for (int q = 0; q < depth; ++q)
        for (int x = 0; x < width; ++x)
          panel[q * width + x] = x < columns ? b[(p + q) * row_b + (j + x) * col_b] : 0.0f;
      for (int i = 0; i < m; ++i)
        row(columns, depth, a + i * row_a + p * col_a, col_a, panel, c + i * ldc + j, alpha, accumulate || p > 0);
    }
}

}  // namespace kvant::isa
