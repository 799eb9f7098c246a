// The portable body of every product: one thread an element, for device backends without a library behind the call, and
// the twin that the host tiles are compared with, bit for bit.
#pragma once

#include "kernels/detail/gemm_problem.hpp"

namespace kvant {
struct Exec;
}

namespace kvant::detail {

/// Sums as the host tiles make them: int32 for int8 by int8, else f32 fused multiply-adds in blocks of 256.
void element_gemm(const Exec& exec, const GemmProblem& problem);

}  // namespace kvant::detail
