// Matrix products in float. f32 goes through Kokkos Kernels (a BLAS below it on CPUs); bf16 is storage: it is widened
// to f32 in workspace, a block at a time, multiplied in f32 and rounded to nearest even where the result is bf16.
//
// Results do not depend on the number of threads: the product is cut into tiles by a rule that knows the shape alone,
// every tile is one single-threaded BLAS call, and the tiles are what the threads share.
#pragma once

#include "tensor/arena.hpp"
#include "tensor/tensor.hpp"
#include "tensor/write.hpp"

#include <string>

namespace kvant {

struct Exec;

/// c[m,n] (+)= op(a) · op(b), with a [m,k] (or [k,m] when trans_a) and b [k,n] (or [n,k] when trans_b).
///
/// Each of a, b, c is f32 or bf16; sums are f32. Rows may be strided (stride of the row axis >= columns), the last axis
/// is dense. Leading axes of a tensor of rank > 2 count as rows. m, n or k of 0 are legal (k = 0: overwrite stores
/// zeros). c overlaps neither a nor b. Scratch comes from `workspace` and is given back before the call returns.
/// Throws kvant::Error on shapes that do not fit, other types, and a last axis that is not dense.
void gemm(const Exec& exec, bool trans_a, bool trans_b, const TensorView& a, const TensorView& b, const TensorView& c,
          Write mode, Arena& workspace);

/// What the f32 product runs on, for the log and the benchmarks: "OpenBLAS SkylakeX", "BLAS", "Kokkos Kernels".
/// `remark` is a sentence when the BLAS chose a kernel below what this CPU can do, otherwise empty.
struct GemmVendor {
  std::string name;
  std::string remark;
};
GemmVendor gemm_vendor();

}  // namespace kvant
