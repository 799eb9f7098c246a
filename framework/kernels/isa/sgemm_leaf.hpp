// Small f32 products on one thread, for tiles that live in the caches (attention). No standard library header: see isa.hpp.
#pragma once

#include "kernels/isa/isa.hpp"

#include <stdint.h>

namespace kvant {

/// c[m,n] = alpha · op(a) · op(b), or c += the same when `accumulate`. Row-major, leading dimensions in elements; a is
/// [m,k], stored [k,m] when trans_a; b is [k,n], stored [n,k] when trans_b. Any size works, tiles up to about 64 x 512 x
/// 128 are what it is made for. Each element is summed over k in rising order by fused multiply-adds, in blocks of 256
/// that are added in rising order, and multiplied by alpha at the end of a block; this does not depend on m, n or ISA.
/// k = 0 stores zeros (or nothing when accumulating). c overlaps neither a nor b. No allocation.
using SgemmLeaf = void (*)(int m, int n, int k, const float* a, int64_t lda, bool trans_a, const float* b, int64_t ldb,
                           bool trans_b, float* c, int64_t ldc, float alpha, bool accumulate);

/// The leaf of the chosen ISA (the pointer may be kept; on a device backend it is host code and of no use).
SgemmLeaf sgemm_leaf();
SgemmLeaf sgemm_leaf(Isa isa);

}  // namespace kvant
