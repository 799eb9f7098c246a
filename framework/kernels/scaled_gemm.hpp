// Products of codes with scales: what a quantized matmul runs on.
//
//   c[i,j] (+)= (acc[i,j] · s_lhs[i]) · s_rhs[j],   acc = sum over the contracted axis of codes · codes
//
// in exactly this order of multiplications; a scale that is not given is not multiplied. With scales by block of the contracted axis,
// int8 by int8 (and fixed point) is the sum over blocks of the above; elsewhere a scale is multiplied into its codes, rounded to f32,
// before they are multiplied. int8 by int8 is integer
// arithmetic with an int32 sum (exact, -128 included; the contracted axis is at most 131071 long, so that it cannot
// overflow) by the micro-kernels of kernels/isa/. Every other pair of types is decoded to f32, a block at a time, and
// multiplied by the f32 GEMM: the CPUs and the portable body have no fp8 arithmetic, so fp8 is emulated there; or, asked for by name, as
// integers (Fp8Accumulation).
#pragma once

#include "kernels/isa/isa.hpp"
#include "tensor/arena.hpp"
#include "tensor/tensor.hpp"
#include "tensor/write.hpp"

#include <cstddef>

namespace kvant {

struct Exec;

/// How products of fp8 codes are summed.
enum class Fp8Accumulation : uint8_t {
  f32,       ///< codes decoded to f32, f32 sums
  fp16x128,  ///< float16 products and sums, promoted to f32 every 128 (AVX-512 FP16): e4m3fn by e4m3fn or e5m2
  fixed,     ///< e4m3fn by e4m3fn as 12-bit fixed point: int32 sums, promoted to f32 every 128
};

/// The pairs of types that fp16x128 multiplies: 128 products of two e5m2 could overflow.
bool takes_half_sums(DType lhs, DType rhs);

inline constexpr int64_t max_int8_contraction = 131071;  ///< 2^31 - 1 over (-128)^2

/// The types that scaled products read: codes of these are decoded as they are packed, all others before.
constexpr bool gemm_reads(DType type) {
  return type == DType::f32 || type == DType::bf16 || type == DType::i8 || type == DType::e4m3fn || type == DType::e5m2 || type == DType::e4m3fnuz ||
         type == DType::e5m2fnuz || type == DType::e2m1;
}

/// The codes of a right-hand operand in the order in which the int8 micro-kernel reads them. Memory is the caller's.
struct PackedOperand {
  void* data = nullptr;  ///< on a 64-byte boundary, packed_bytes() long
  std::size_t bytes = 0;
  Isa isa = Isa::portable;  ///< whose order it is; a GEMM that runs another refuses
  int64_t groups = 1, contracted = 0, columns = 0;
  int64_t block = 0;  ///< contracted steps that are packed together, ScaledOperand::block of the product; 0: all
};

struct ScaledOperand {
  /// A type of gemm_reads (f32: codes already decoded, by a plugin's format), rank 2, or 3 for the weights of groups.
  TensorView codes;
  /// As in gemm: lhs [m,k] (trans: [k,m]); rhs [k,n] (trans: [n,k]); rhs of groups [G,k,n] (trans: [G,n,k]).
  bool trans = false;
  /// f32, dense. Empty: none; 1 element: one for the tensor; else one per index of the axis that is not contracted
  /// (rhs of groups: [G,n] or [n]). With blocks, one of these for each: [blocks, …].
  TensorView scale;
  /// Right-hand operand only, and only for int8 by int8: what pack() made of `codes` (whose data may then be null; type
  /// and shape still count). Null: packed in the workspace during the call.
  const PackedOperand* packed = nullptr;
  /// Left-hand operand only: how the product of fp8 codes is summed. `fixed` and `fp16x128` with other types are refused.
  Fp8Accumulation accumulation = Fp8Accumulation::f32;
  /// Left-hand operand only: contracted steps that share scales, in both operands; divides the contracted axis. 0: all of them.
  /// Not for scaled_grouped_gemm_wgrad, whose groups are of any length.
  int64_t block = 0;
};

/// c [m,n], f32 or bf16 (rounded to nearest even after the scales).
void scaled_gemm(const Exec& exec, const ScaledOperand& lhs, const ScaledOperand& rhs, const TensorView& c, Write mode,
                 Arena& workspace);

/// The rows of lhs [R,k] are grouped as in kernels/grouped_gemm.hpp; rhs [G,k,n]; c [R,n].
void scaled_grouped_gemm(const Exec& exec, const ScaledOperand& lhs, const ScaledOperand& rhs, const TensorView& offsets,
                         const TensorView& c, Write mode, Arena& workspace);

/// dw[g] (+)= (lhs[rows of g]^T · rhs[rows of g] · s_lhs[i]) · s_rhs[j]: lhs [R,k], rhs [R,n] (both stored with the
/// contracted rows first: `trans` is not looked at), dw [G,k,n]; s_lhs empty, 1, [k] or [G,k]; s_rhs empty, 1, [n] or [G,n].
void scaled_grouped_gemm_wgrad(const Exec& exec, const ScaledOperand& lhs, const ScaledOperand& rhs,
                               const TensorView& offsets, const TensorView& dw, Write mode, Arena& workspace);

/// Bytes that pack() writes for an operand of this type and stored shape ([k,n], [G,k,n], trans: [n,k], [G,n,k]).
/// 0 for types that are not packed (all but i8): their GEMM decodes them as it goes.
std::size_t packed_bytes(DType dtype, const Shape& stored, bool trans, int64_t block = 0);

/// Packs int8 `codes` as a right-hand operand, once for all the GEMMs of a step: trans = false for the forward product,
/// trans = true for the product with the transposed matrix (dgrad). packed.data, packed.bytes and packed.block are given by the
/// caller, the rest is filled in.
void pack(const Exec& exec, const TensorView& codes, bool trans, PackedOperand& packed);

}  // namespace kvant
