// One description for every product of kernels/gemm.hpp, grouped_gemm.hpp and scaled_gemm.hpp; the bodies (host tiles,
// int8 tiles, the element kernel, a vendor's library) all take it.
#pragma once

#include "tensor/tensor.hpp"
#include "tensor/write.hpp"

#include <cstdint>

namespace kvant::detail {

/// op(x) [rows, columns] of group g is at data + g * group_stride, stored [columns, rows] when trans.
struct GemmOperand {
  const void* data = nullptr;
  DType type = DType::f32;
  int64_t ld = 0;  ///< elements between stored rows
  bool trans = false;
  int64_t group_stride = 0;
};

/// Scale of index i in group g and block q: data[q * block_stride + g * group_stride + i * stride]; no data: not multiplied.
struct GemmScale {
  const float* data = nullptr;
  int64_t stride = 0;
  int64_t group_stride = 0;
  int64_t block_stride = 0;
};

struct GemmOutput {
  void* data = nullptr;
  DType type = DType::f32;
  int64_t ld = 0;
  int64_t group_stride = 0;
  bool add = false;
};

enum class Grouping : uint8_t {
  none,
  rows,         ///< rows offsets[g] .. offsets[g+1] of a and c go with b of group g
  contraction,  ///< rows offsets[g] .. offsets[g+1] of a (stored [R,m], trans) and b (stored [R,n]) make c of group g
};

/// c (+)= (op(a) · op(b) · scale_a[i]) · scale_b[j], or the sum of that over blocks of the contracted axis. Where both operands
/// are summed as integers each block's sum is scaled; elsewhere the scales of blocks are multiplied into the values before.
/// Its methods are constexpr to be callable in kernels.
struct GemmProblem {
  Grouping grouping = Grouping::none;
  int64_t m = 0, n = 0, k = 0;  ///< rows: m counts the rows of all groups; contraction: k does
  int64_t groups = 1;
  const int32_t* offsets = nullptr;
  GemmOperand a, b;
  GemmScale scale_a, scale_b;
  GemmOutput c;
  int64_t block = 0;         ///< steps of the contracted axis in a block, which divides it; 0: all of them
  bool fixed_point = false;  ///< e4m3fn by e4m3fn: integers of 12 bits, sums of 128 products in int32, sums of those in f32
  bool half_sums = false;    ///< fp8 codes: sums of 128 products in f16 (kernels/isa/half_tile.hpp), sums of those in f32

  constexpr bool integer() const { return a.type == DType::i8 && b.type == DType::i8; }
  constexpr bool scales_in_values() const { return block > 0 && !integer() && !fixed_point; }
  /// Whether scales wait for the sum.
  constexpr bool scaled() const { return !scales_in_values() && (scale_a.data != nullptr || scale_b.data != nullptr); }
};

/// A tensor as a matrix: leading axes are rows. Throws unless the last axis is dense and the rows are evenly spaced.
struct Matrix {
  void* data = nullptr;
  DType type = DType::f32;
  int64_t rows = 0, cols = 0, ld = 0;
};
Matrix as_matrix(const TensorView& x, const char* operation, const char* name);

/// [G, rows, cols] of which each group is dense; group_stride is that of axis 0.
Matrix as_group_matrix(const TensorView& x, const char* operation, const char* name);

/// Refuses types that the f32 products do not take.
void require_float(DType type, const char* operation, const char* name);
/// Offsets: int32, dense, groups + 1 of them.
const int32_t* group_offsets(const TensorView& offsets, int64_t groups, const char* operation);

}  // namespace kvant::detail
