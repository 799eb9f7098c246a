// f32 leaf for AVX2 and FMA: 6 rows x 16 columns in 12 of the 16 registers.
#include "kernels/isa/leaves.hpp"
#include "kernels/isa/sgemm_leaf_body.hpp"
#include "kernels/isa/vector_avx2.hpp"

namespace kvant::isa {

void sgemm_avx2(int m, int n, int k, const float* a, int64_t lda, bool trans_a, const float* b, int64_t ldb, bool trans_b,
              float* c, int64_t ldc, float alpha, bool accumulate) {
  leaf_body<Avx2>({m, k, a, lda, trans_a, ldb, trans_b, ldc, alpha, accumulate}, n, b, c);
}

}  // namespace kvant::isa
