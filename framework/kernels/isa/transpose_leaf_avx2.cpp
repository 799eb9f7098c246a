// 8 x 8 blocks in registers; what is left at the right and at the bottom goes element by element.
#include "kernels/isa/transpose_leaf.hpp"

#include <immintrin.h>

namespace {

void block(const float* from, int64_t ld_from, float* to, int64_t ld_to) {
  __m256 r[8], t[8];
#pragma GCC unroll 8
  for (int i = 0; i < 8; ++i) r[i] = _mm256_loadu_ps(from + i * ld_from);
#pragma GCC unroll 8
  for (int i = 0; i < 8; i += 2) {  // pairs of rows interleaved
    t[i] = _mm256_unpacklo_ps(r[i], r[i + 1]);
    t[i + 1] = _mm256_unpackhi_ps(r[i], r[i + 1]);
  }
#pragma GCC unroll 8
  for (int i = 0; i < 8; i += 4) {  // r[i + c]: columns c (low half) and c + 4 (high half) of rows i .. i + 3
    r[i] = _mm256_shuffle_ps(t[i], t[i + 2], _MM_SHUFFLE(1, 0, 1, 0));
    r[i + 1] = _mm256_shuffle_ps(t[i], t[i + 2], _MM_SHUFFLE(3, 2, 3, 2));
    r[i + 2] = _mm256_shuffle_ps(t[i + 1], t[i + 3], _MM_SHUFFLE(1, 0, 1, 0));
    r[i + 3] = _mm256_shuffle_ps(t[i + 1], t[i + 3], _MM_SHUFFLE(3, 2, 3, 2));
  }
#pragma GCC unroll 8
  for (int c = 0; c < 4; ++c) {
    _mm256_storeu_ps(to + c * ld_to, _mm256_permute2f128_ps(r[c], r[4 + c], 0x20));
    _mm256_storeu_ps(to + (4 + c) * ld_to, _mm256_permute2f128_ps(r[c], r[4 + c], 0x31));
  }
}

}  // namespace

namespace kvant::isa {

void transpose_avx2(int rows, int cols, const float* from, int64_t ld_from, float* to, int64_t ld_to) {
  const int whole_rows = rows / 8 * 8, whole_cols = cols / 8 * 8;
  for (int row = 0; row < whole_rows; row += 8) {
    for (int col = 0; col < whole_cols; col += 8)
      block(from + row * ld_from + col, ld_from, to + col * ld_to + row, ld_to);
    transpose_portable(8, cols - whole_cols, from + row * ld_from + whole_cols, ld_from, to + whole_cols * ld_to + row,
                       ld_to);
  }
  transpose_portable(rows - whole_rows, cols, from + whole_rows * ld_from, ld_from, to + whole_rows, ld_to);
}

}  // namespace kvant::isa
