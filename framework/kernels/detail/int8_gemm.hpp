// Products of int8 codes in integer arithmetic.
#pragma once

#include "kernels/detail/gemm_problem.hpp"
#include "kernels/scaled_gemm.hpp"
#include "tensor/arena.hpp"

namespace kvant::detail {

/// Products of e4m3fn codes in fixed point go the same way (kernels/isa/fixed_avx2.cpp).
/// Host tiles with the chosen ISA (kernels/isa/int8_tile.hpp): both operands are packed (b only when `packed` is null), then
/// the tiles of all groups run as one pool, scales in the store.
void int8_gemm_on_host(const Exec& exec, const GemmProblem& problem, const PackedOperand* packed, Arena& workspace);

/// Bytes that groups of [contracted, columns] take when packed for `isa`, in blocks of `block` contracted steps (0: whole).
std::size_t int8_packed_bytes(Isa isa, int64_t groups, int64_t contracted, int64_t columns, int64_t block);

/// Packs operand b of a problem (its groups, k and n) to memory of int8_packed_bytes.
void int8_pack(const Exec& exec, Isa isa, const GemmOperand& b, int64_t groups, int64_t contracted, int64_t columns, int64_t block, void* to);

}  // namespace kvant::detail
