// Matrix products in float. bf16 is storage: it is widened to f32 as an operand is packed, multiplied in f32 and rounded
// to nearest even where the result is bf16.
//
// On CPUs with a micro-kernel (kernels/isa/) the product runs in tiles of our own; elsewhere, and on request, f32 goes
// through Kokkos Kernels (docs/decisions/float-gemm.md says why and what was measured). Results do not depend on the
// number of threads; with our tiles an element depends on nothing but its row of a and its column of b, so that cutting a
// batch in two, or another ISA, changes no bit.
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

/// What f32 by f32 runs on: our tiles, or Kokkos Kernels (on CPUs with a BLAS below it).
enum class FloatGemm : uint8_t { tiles, kokkos_kernels };

/// Our tiles where the chosen ISA has vector kernels, Kokkos Kernels otherwise, or what the environment variable
/// KVANT_FLOAT_GEMM (tiles, kokkos_kernels) says. Throws kvant::UsageError for another word. Read at the first call.
FloatGemm chosen_float_gemm();

/// What a value of KVANT_FLOAT_GEMM means (null or empty: the default).
FloatGemm float_gemm_from(const char* wanted);

/// For the log and the benchmarks: "tiles (avx512)", "Kokkos Kernels on OpenBLAS Cooperlake".
std::string describe(FloatGemm body);

/// Empty, or a sentence for the log: the BLAS below Kokkos Kernels took this processor for a lesser one and is slow.
std::string remark(FloatGemm body);

/// For tests and benchmarks: the same product by the body that is given.
void gemm_by(FloatGemm body, const Exec& exec, bool trans_a, bool trans_b, const TensorView& a, const TensorView& b, const TensorView& c,
             Write mode, Arena& workspace);

}  // namespace kvant
