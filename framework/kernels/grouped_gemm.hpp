// Products of groups of rows with a matrix per group: the expert layers. Rows are sorted by group, `offsets` says where
// each group begins. Types, strides, sums and independence of the number of threads are as in kernels/gemm.hpp; the
// tiles of all groups are one pool that the threads share, so that uneven groups do not leave threads idle.
#pragma once

#include "tensor/arena.hpp"
#include "tensor/tensor.hpp"
#include "tensor/write.hpp"

namespace kvant {

struct Exec;

/// c[r,:] (+)= a[r,:] · op(b[g]) for offsets[g] <= r < offsets[g+1].
///
/// a [R,k], c [R,n], b [G,k,n] (or [G,n,k] when trans_b, dense within a group), offsets int32 [G+1] in execution memory,
/// not falling, offsets[0] = 0, offsets[G] <= R. Empty groups are legal. Rows from offsets[G] on belong to nobody: they
/// are stored as zero when overwriting and left alone when accumulating. R = 0 returns at once.
void grouped_gemm(const Exec& exec, bool trans_b, const TensorView& a, const TensorView& b, const TensorView& offsets,
                  const TensorView& c, Write mode, Arena& workspace);

/// dw[g] (+)= a[rows of g]^T · dy[rows of g]: a [R,k], dy [R,n], dw [G,k,n]. An empty group is stored as zero when
/// overwriting. Rows from offsets[G] on do not count.
void grouped_gemm_wgrad(const Exec& exec, const TensorView& a, const TensorView& dy, const TensorView& offsets,
                        const TensorView& dw, Write mode, Arena& workspace);

}  // namespace kvant
