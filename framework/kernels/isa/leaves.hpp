// Entry points of the files of this folder that are built for one ISA each; isa.cpp chooses among them. Internal to
// kernels/. No standard library header: see isa.hpp.
#pragma once

#include <stdint.h>

namespace kvant::isa {

void sgemm_portable(int m, int n, int k, const float* a, int64_t lda, bool trans_a, const float* b, int64_t ldb,
                    bool trans_b, float* c, int64_t ldc, float alpha, bool accumulate);
void sgemm_avx2(int m, int n, int k, const float* a, int64_t lda, bool trans_a, const float* b, int64_t ldb, bool trans_b,
                float* c, int64_t ldc, float alpha, bool accumulate);
void sgemm_avx512(int m, int n, int k, const float* a, int64_t lda, bool trans_a, const float* b, int64_t ldb,
                  bool trans_b, float* c, int64_t ldc, float alpha, bool accumulate);

}  // namespace kvant::isa
