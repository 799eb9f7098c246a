// f32 products by Kokkos Kernels: on CPUs its BLAS wrapper (a BLAS below it), on devices KokkosBlas::gemm.
#pragma once

#include "kernels/detail/gemm_problem.hpp"
#include "tensor/arena.hpp"

#include <string>

namespace kvant {
struct Exec;
}

namespace kvant::vendor {

/// Whether this product can be given to Kokkos Kernels: dense, all f32, no scales.
bool kokkos_kernels_takes(const detail::GemmProblem& problem);

/// On CPUs c is cut into tiles by a rule that knows the shape alone, and every tile is one single-threaded BLAS call, so
/// that results do not depend on the number of threads, which a BLAS does not promise.
void kokkos_kernels_gemm(const Exec& exec, const detail::GemmProblem& problem, Arena& workspace);

/// "OpenBLAS Cooperlake", "BLAS" (one that does not say), or "KokkosBlas" on devices.
std::string blas_name();

/// Empty, or a sentence: the BLAS detected a processor far below this one (OPENBLAS_CORETYPE, or a wrong detection), which
/// makes it several times slower.
std::string blas_remark();

}  // namespace kvant::vendor
