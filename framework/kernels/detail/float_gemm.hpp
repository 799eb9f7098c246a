// Products in f32 of operands of any stored type.
#pragma once

#include "kernels/detail/gemm_problem.hpp"
#include "tensor/arena.hpp"

namespace kvant {
struct Exec;
}

namespace kvant::detail {

/// Host tiles with the chosen ISA (kernels/isa/float_tile.hpp), then, where the result is not plain f32, scales, addition
/// and rounding of the finished tile.
void float_gemm_on_host(const Exec& exec, const GemmProblem& problem, Arena& workspace);

/// Finished f32 sums [rows, columns] (dense) of group g to their place in c, at row and column of the group's product.
void store_tile(const GemmProblem& problem, int64_t group, int64_t row, int64_t column, int64_t rows, int64_t columns,
                const float* sums);

}  // namespace kvant::detail
