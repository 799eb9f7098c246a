#include "quant/product.hpp"

#include "base/error.hpp"
#include "kernels/block_scales.hpp"
#include "tensor/arena.hpp"

#include <algorithm>

namespace kvant::quant {
namespace {

TensorView by_group(const Side& side, const TensorView& matrix) {
  return side.groups > 0 ? matrix.reshaped({side.groups, matrix.shape[0] / side.groups, matrix.shape[1]}) : matrix;
}

/// The scales are behind the sum: of rows, of columns, or one.
ScaledOperand with_scale_behind(StepContext& ctx, const Side& side, bool trans) {
  if (side.recipe == nullptr) return {by_group(side, side.plain), trans, {}, nullptr};
  ScaledOperand operand;
  operand.trans = trans;
  const QuantizedMatrix& q = side.quantized;
  operand.codes = by_group(side, q.codes);
  operand.packed = side.packed;
  if (!side.bare) operand.scale = q.scale;
  if (!side.recipe->codec->readable_by_gemm()) {
    const TensorView values = ctx.arena.allocate(DType::f32, q.codes.shape);
    side.recipe->codec->decode(ctx.exec, q.codes, values);
    operand.codes = by_group(side, values);
  }
  return operand;
}

/// The scales are in the values.
ScaledOperand as_values(StepContext& ctx, const Side& side, bool trans) {
  if (side.recipe == nullptr) return with_scale_behind(ctx, side, trans);
  const TensorView values = ctx.arena.allocate(DType::f32, side.quantized.codes.shape);
  if (values.numel() == 0) return {by_group(side, values), trans, {}, nullptr};
  if (side.bare)
    side.recipe->codec->decode(ctx.exec, side.quantized.codes, values);
  else
    dequantize_matrix(ctx.exec, *side.recipe, side.quantized, values);
  return {by_group(side, values), trans, {}, nullptr};
}

void run(StepContext& ctx, const ScaledOperand& left, const ScaledOperand& right, const TensorView& offsets, const TensorView& c, Write mode) {
  if (offsets.data == nullptr)
    scaled_gemm(ctx.exec, left, right, c, mode, ctx.arena);
  else if (left.trans)
    scaled_grouped_gemm_wgrad(ctx.exec, left, right, offsets, c, mode, ctx.arena);
  else
    scaled_grouped_gemm(ctx.exec, left, right, offsets, c, mode, ctx.arena);
}

int64_t contracted_length(const Side& side) {
  const Shape shape = side.matrix();
  return side.contracted == 0 && side.groups > 0 ? shape[0] / side.groups : shape[side.contracted];
}

/// Scales of a side by block [blocks, channels]; none where they went elsewhere.
TensorView scales_of(StepContext& ctx, const Side& side, int64_t blocks) {
  if (side.bare) return {};
  const Shape shape = side.matrix();
  const int64_t groups = std::max<int64_t>(1, side.groups);
  const int64_t channels = side.contracted == 1 ? shape[0] : groups * shape[1];
  const TensorView scales = ctx.arena.allocate(DType::f32, {blocks, channels});
  scales_by_block(ctx.exec, side.quantized.scale, shape, side.quantized.tile, side.contracted, side.groups > 0 ? shape[0] / side.groups : 0, scales);
  return scales;
}

/// How many elements of the contracted axis share both scales.
int64_t block_of(const Side& left, const Side& right) {
  const int64_t length = contracted_length(left);
  const auto tile = [&](const Side& side) {
    if (side.recipe == nullptr || side.bare) return length;
    return std::min(length, side.quantized.tile[static_cast<std::size_t>(side.contracted)]);
  };
  return std::max<int64_t>(1, std::min(tile(left), tile(right)));
}

/// Whether the product can take the scales of blocks as it reads the codes; otherwise the values are made before.
bool takes_blocks(const Side& left, const Side& right, const TensorView& offsets) {
  constexpr int64_t fewest = 8;  // with fewer to a scale, there are nearly as many scales as values
  if (left.matrix().numel() == 0 || (offsets.data != nullptr && left.contracted == 0)) return false;
  const int64_t block = block_of(left, right);
  const auto takes = [&](const Side& side) {
    if (side.recipe == nullptr || side.bare) return true;
    const QuantizedMatrix& q = side.quantized;
    const int64_t tile = q.tile[static_cast<std::size_t>(side.contracted)];
    return side.recipe->codec->readable_by_gemm() && q.zero_point.data == nullptr && (tile % block == 0 || q.scale.numel() == 1);
  };
  return block >= fewest && block < contracted_length(left) && contracted_length(left) % block == 0 && takes(left) && takes(right);
}

/// Each block with its scales: behind its sum where that is of integers, else in the values as they are read.
void multiply_blocks(StepContext& ctx, const Side& left, const Side& right, const TensorView& offsets, const TensorView& c, Write mode) {
  const int64_t block = block_of(left, right), blocks = contracted_length(left) / block;
  const auto operand = [&](const Side& side) {
    if (side.recipe == nullptr) return ScaledOperand{by_group(side, side.plain), false, {}, nullptr};
    return ScaledOperand{by_group(side, side.quantized.codes), false, scales_of(ctx, side, blocks), side.packed};
  };
  ScaledOperand a = operand(left), b = operand(right);
  a.trans = left.contracted == 0;
  b.trans = right.contracted == 1;
  a.block = blocks > 1 ? block : 0;
  run(ctx, a, b, offsets, c, mode);
}

}  // namespace

void multiply(StepContext& ctx, Product product, const Side& left, const Side& right, const TensorView& offsets, const TensorView& c, Write mode,
              Accumulation accumulation) {
  ArenaScope workspace(ctx.arena);
  if (c.numel() == 0) return;
  if (product == Product::integer_blocks && left.matrix().numel() == 0) product = Product::values;  // nothing to divide into blocks
  const bool values = product == Product::values;
  if (product == Product::integer_blocks || (values && takes_blocks(left, right, offsets))) return multiply_blocks(ctx, left, right, offsets, c, mode);
  const auto operand = [&](const Side& side, bool trans) { return values ? as_values(ctx, side, trans) : with_scale_behind(ctx, side, trans); };
  ScaledOperand a = operand(left, left.contracted == 0);
  const ScaledOperand b = operand(right, right.contracted == 1);
  // Integer products and those with a plain side are not what the setting is about.
  if (product == Product::codes && left.recipe != nullptr && right.recipe != nullptr) a.accumulation = accumulation;
  run(ctx, a, b, offsets, c, mode);
}

}  // namespace kvant::quant
