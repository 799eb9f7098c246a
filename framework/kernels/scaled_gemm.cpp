#include "kernels/scaled_gemm.hpp"

#include "base/kokkos.hpp"
#include "kernels/detail/element_gemm.hpp"
#include "kernels/detail/float_gemm.hpp"
#include "kernels/detail/gemm_problem.hpp"
#include "kernels/detail/int8_gemm.hpp"

#include <cstdint>

namespace kvant {
namespace {

using detail::GemmProblem;
using detail::Grouping;

void require_codes(DType type, const char* operation, const char* name) {
  require(gemm_reads(type), "{}: the codes of {} must be int8, float8 (e4m3fn, e5m2, e4m3fnuz, e5m2fnuz), float4_e2m1fn, bfloat16 or float32; they are {}.",
          operation, name, name_of(type));
}

/// Scales for `count` indices (of each of `groups` groups), in each of `blocks` blocks.
detail::GemmScale scale_of(const TensorView& scale, int64_t count, int64_t groups, int64_t blocks, const char* operation, const char* name) {
  if (scale.empty()) return {};
  require(scale.dtype == DType::f32 && scale.contiguous(), "{}: the scales of {} must be dense float32; they are {} of shape {}.", operation, name,
          name_of(scale.dtype), to_string(scale.shape));
  const int64_t given = scale.numel(), each = given / blocks;
  if (given == 1) return {scale.as<float>(), 0, 0, 0};
  if (given == blocks * each && each == count) return {scale.as<float>(), 1, 0, count};
  require(groups > 1 && given == blocks * each && each == groups * count, "{}: {} has {} scales; 1, {}{} were expected.", operation, name, given,
          blocks * count, groups > 1 ? " or " + std::to_string(blocks * groups * count) : "");
  return {scale.as<float>(), 1, count, groups * count};
}

void check_packed(const ScaledOperand& rhs, int64_t groups, int64_t contracted, int64_t columns, int64_t block, bool integer, const char* operation) {
  const PackedOperand& p = *rhs.packed;
  require(integer, "{}: a packed operand was given with codes of {}; only int8 by int8 reads packed codes.", operation, name_of(rhs.codes.dtype));
  require(p.isa == chosen_isa(), "{}: the packed operand is in the order of {}, but the product runs on {}.", operation, name_of(p.isa),
          name_of(chosen_isa()));
  require(p.groups == groups && p.contracted == contracted && p.columns == columns,
          "{}: the packed operand holds {} x [{}, {}]; {} x [{}, {}] was expected.", operation, p.groups, p.contracted, p.columns, groups, contracted,
          columns);
  require(p.block == block, "{}: the packed operand is packed in blocks of {} steps, but the product has blocks of {} (0: one block).", operation, p.block, block);
}

/// The blocks of the contracted axis of a product, whose length goes into the problem.
int64_t blocks_of(const ScaledOperand& lhs, GemmProblem& p, const char* operation) {
  if (lhs.block == 0 || p.k == 0) return 1;
  require(lhs.block > 0 && p.k % lhs.block == 0, "{}: blocks of {} do not divide the contracted axis, which is {} long.", operation, lhs.block, p.k);
  p.block = lhs.block;
  return p.k / lhs.block;
}

void run(const Exec& exec, GemmProblem p, const ScaledOperand& lhs, const ScaledOperand& rhs, const char* operation, Arena& workspace) {
  require_codes(p.a.type, operation, "lhs");
  require_codes(p.b.type, operation, "rhs");
  detail::require_float(p.c.type, operation, "c");
  require(lhs.packed == nullptr, "{}: a left-hand operand is packed during the call; it cannot be given packed.", operation);
  const PackedOperand* packed = rhs.packed != nullptr && rhs.packed->bytes > 0 ? rhs.packed : nullptr;
  if (packed != nullptr) check_packed(rhs, p.groups, p.k, p.n, p.block, p.integer(), operation);
  const int64_t summed = p.block > 0 ? p.block : p.k;
  if (p.integer() && p.grouping != Grouping::contraction)
    require(summed <= max_int8_contraction, "{}: the contracted axis of int8 codes is {} long; more than {} could overflow the int32 sum.", operation, summed,
            max_int8_contraction);
  p.half_sums = lhs.accumulation == Fp8Accumulation::fp16x128;
  require(!p.half_sums || takes_half_sums(p.a.type, p.b.type), "{}: sums in float16 are of float8_e4m3fn by float8_e4m3fn or float8_e5m2; lhs is {}, rhs {}.",
          operation, name_of(p.a.type), name_of(p.b.type));
  require(!p.half_sums || p.block == 0, "{}: sums in float16 do not take scales of blocks.", operation);
  require(!p.half_sums || !exec_is_host || sums_in_half(), "{}: sums in float16 need AVX-512 FP16, which the instruction set {} of this CPU has not.", operation,
          name_of(chosen_isa()));
  p.fixed_point = lhs.accumulation == Fp8Accumulation::fixed;
  require(!p.fixed_point || (p.a.type == DType::e4m3fn && p.b.type == DType::e4m3fn),
          "{}: fixed-point sums are of float8_e4m3fn by float8_e4m3fn; lhs is {}, rhs {}.", operation, name_of(p.a.type), name_of(p.b.type));
  if (!exec_is_host || ((p.fixed_point || p.half_sums) && chosen_isa() == Isa::portable)) return detail::element_gemm(exec, p);
  if (p.fixed_point) return detail::int8_gemm_on_host(exec, p, nullptr, workspace);
  if (p.integer()) return detail::int8_gemm_on_host(exec, p, packed, workspace);
  detail::float_gemm_on_host(exec, p, workspace);
}

}  // namespace

bool takes_half_sums(DType lhs, DType rhs) {
  return (lhs == DType::e4m3fn && (rhs == DType::e4m3fn || rhs == DType::e5m2)) || (lhs == DType::e5m2 && rhs == DType::e4m3fn);
}

void scaled_gemm(const Exec& exec, const ScaledOperand& lhs, const ScaledOperand& rhs, const TensorView& c, Write mode, Arena& workspace) {
  constexpr const char* operation = "scaled_gemm";
  const detail::Matrix a = detail::as_matrix(lhs.codes, operation, "lhs"), b = detail::as_matrix(rhs.codes, operation, "rhs"),
                       mc = detail::as_matrix(c, operation, "c");
  GemmProblem p;
  p.m = mc.rows;
  p.n = mc.cols;
  p.k = lhs.trans ? a.rows : a.cols;
  require((lhs.trans ? a.cols : a.rows) == p.m && (rhs.trans ? b.cols : b.rows) == p.k && (rhs.trans ? b.rows : b.cols) == p.n,
          "scaled_gemm: lhs {}{} and rhs {}{} do not make c {}.", to_string(lhs.codes.shape), lhs.trans ? " transposed" : "",
          to_string(rhs.codes.shape), rhs.trans ? " transposed" : "", to_string(c.shape));
  p.a = {a.data, a.type, a.ld, lhs.trans, 0};
  p.b = {b.data, b.type, b.ld, rhs.trans, 0};
  p.c = {mc.data, mc.type, mc.ld, 0, mode == Write::accumulate};
  const int64_t blocks = blocks_of(lhs, p, operation);
  p.scale_a = scale_of(lhs.scale, p.m, 1, blocks, operation, "lhs");
  p.scale_b = scale_of(rhs.scale, p.n, 1, blocks, operation, "rhs");
  run(exec, p, lhs, rhs, operation, workspace);
}

void scaled_grouped_gemm(const Exec& exec, const ScaledOperand& lhs, const ScaledOperand& rhs, const TensorView& offsets, const TensorView& c,
                         Write mode, Arena& workspace) {
  constexpr const char* operation = "scaled_grouped_gemm";
  const detail::Matrix a = detail::as_matrix(lhs.codes, operation, "lhs"), b = detail::as_group_matrix(rhs.codes, operation, "rhs"),
                       mc = detail::as_matrix(c, operation, "c");
  require(!lhs.trans, "scaled_grouped_gemm: the rows of lhs are grouped, so it cannot be transposed.");
  require(a.rows == mc.rows && (rhs.trans ? b.cols : b.rows) == a.cols && (rhs.trans ? b.rows : b.cols) == mc.cols,
          "scaled_grouped_gemm: lhs {} and rhs {}{} do not make c {}.", to_string(lhs.codes.shape), to_string(rhs.codes.shape),
          rhs.trans ? " transposed" : "", to_string(c.shape));
  GemmProblem p;
  p.grouping = Grouping::rows;
  p.m = mc.rows;
  p.n = mc.cols;
  p.k = a.cols;
  p.groups = rhs.codes.shape[0];
  p.offsets = detail::group_offsets(offsets, p.groups, operation);
  p.a = {a.data, a.type, a.ld, false, 0};
  p.b = {b.data, b.type, b.ld, rhs.trans, rhs.codes.stride[0]};
  p.c = {mc.data, mc.type, mc.ld, 0, mode == Write::accumulate};
  const int64_t blocks = blocks_of(lhs, p, operation);
  p.scale_a = scale_of(lhs.scale, p.m, 1, blocks, operation, "lhs");
  p.scale_b = scale_of(rhs.scale, p.n, p.groups, blocks, operation, "rhs");
  run(exec, p, lhs, rhs, operation, workspace);
}

void scaled_grouped_gemm_wgrad(const Exec& exec, const ScaledOperand& lhs, const ScaledOperand& rhs, const TensorView& offsets, const TensorView& dw,
                               Write mode, Arena& workspace) {
  constexpr const char* operation = "scaled_grouped_gemm_wgrad";
  const detail::Matrix a = detail::as_matrix(lhs.codes, operation, "lhs"), b = detail::as_matrix(rhs.codes, operation, "rhs"),
                       w = detail::as_group_matrix(dw, operation, "dw");
  require(a.rows == b.rows && a.cols == w.rows && b.cols == w.cols, "scaled_grouped_gemm_wgrad: lhs {} transposed and rhs {} do not make dw {}.",
          to_string(lhs.codes.shape), to_string(rhs.codes.shape), to_string(dw.shape));
  require(lhs.block == 0, "scaled_grouped_gemm_wgrad: groups are of any length; blocks of {} are not taken.", lhs.block);
  require(rhs.packed == nullptr, "scaled_grouped_gemm_wgrad: both operands are packed during the call; neither can be given packed.");
  GemmProblem p;
  p.grouping = Grouping::contraction;
  p.m = a.cols;
  p.n = b.cols;
  p.k = a.rows;
  p.groups = dw.shape[0];
  p.offsets = detail::group_offsets(offsets, p.groups, operation);
  p.a = {a.data, a.type, a.ld, true, 0};
  p.b = {b.data, b.type, b.ld, false, 0};
  p.c = {w.data, w.type, w.ld, dw.stride[0], mode == Write::accumulate};
  p.scale_a = scale_of(lhs.scale, p.m, p.groups, 1, operation, "lhs");
  p.scale_b = scale_of(rhs.scale, p.n, p.groups, 1, operation, "rhs");
  run(exec, p, lhs, rhs, operation, workspace);
}

std::size_t packed_bytes(DType dtype, const Shape& stored, bool trans, int64_t block) {
  if (dtype != DType::i8 || !exec_is_host) return 0;
  require(stored.rank == 2 || stored.rank == 3, "A packed operand has two or three axes; a shape {} was given.", to_string(stored));
  const int64_t groups = stored.rank == 3 ? stored[0] : 1, rows = stored[stored.rank - 2], columns = stored[stored.rank - 1];
  const int64_t contracted = trans ? columns : rows;
  require(block == 0 || (block > 0 && contracted % block == 0), "A packed operand of {} contracted steps cannot be packed in blocks of {}.", contracted, block);
  return detail::int8_packed_bytes(chosen_isa(), groups, contracted, trans ? rows : columns, block);
}

void pack(const Exec& exec, const TensorView& codes, bool trans, PackedOperand& packed) {
  constexpr const char* operation = "pack";
  const std::size_t needed = packed_bytes(codes.dtype, codes.shape, trans, packed.block);
  if (needed == 0) {
    packed.bytes = 0;  // nothing to read: the product takes the codes
    return;
  }
  require(packed.bytes >= needed && reinterpret_cast<std::uintptr_t>(packed.data) % 64 == 0,
          "pack: {} bytes on a 64-byte boundary are needed for codes of shape {}; {} bytes at {} were given.", needed, to_string(codes.shape), packed.bytes,
          packed.data);
  const bool grouped = codes.shape.rank == 3;
  const detail::Matrix m = grouped ? detail::as_group_matrix(codes, operation, "codes") : detail::as_matrix(codes, operation, "codes");
  packed.isa = chosen_isa();
  packed.groups = grouped ? codes.shape[0] : 1;
  packed.contracted = trans ? m.cols : m.rows;
  packed.columns = trans ? m.rows : m.cols;
  detail::int8_pack(exec, packed.isa, {m.data, m.type, m.ld, trans, grouped ? codes.stride[0] : 0}, packed.groups, packed.contracted, packed.columns,
                    packed.block, packed.data);
}

}  // namespace kvant
