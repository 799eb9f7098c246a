// f32 leaf for AVX-512: 6 rows x 64 columns in 24 of the 32 registers.
#include "kernels/isa/leaves.hpp"
#include "kernels/isa/sgemm_leaf_body.hpp"
#include "kernels/isa/vector_avx512.hpp"

namespace kvant::isa {

void sgemm_avx512(int m, int n, int k, const float* a, int64_t lda, bool trans_a, const float* b, int64_t ldb, bool trans_b,
              float* c, int64_t ldc, float alpha, bool accumulate) {
  leaf_body<Avx512>({m, k, a, lda, trans_a, ldb, trans_b, ldc, alpha, accumulate}, n, b, c);
}

}  // namespace kvant::isa
