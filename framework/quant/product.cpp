#include "quant/product.hpp"

#include "base/error.hpp"
#include "kernels/block_scales.hpp"
#include "kernels/elementwise.hpp"
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

/// Elements [at, at + count) of the contracted axis.
TensorView slice(const TensorView& x, const Side& side, int64_t at, int64_t count) {
  TensorView part = by_group(side, x);
  const std::size_t axis = static_cast<std::size_t>(part.shape.rank - 2 + side.contracted);
  part.data = static_cast<std::byte*>(part.data) + static_cast<std::size_t>(at * part.stride[axis]) * size_of(part.dtype);
  part.shape.dim[axis] = count;
  return part;
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

/// Integer sums of one block after the other, each with its scales.
void multiply_blocks(StepContext& ctx, const Side& left, const Side& right, const TensorView& offsets, const TensorView& c, Write mode) {
  const int64_t length = contracted_length(left);
  const auto tile = [&](const Side& side) {
    return side.bare ? length : std::min(length, side.quantized.tile[static_cast<std::size_t>(side.contracted)]);
  };
  const int64_t block = std::max<int64_t>(1, std::min(tile(left), tile(right)));
  const int64_t blocks = length / block;
  const TensorView left_scales = scales_of(ctx, left, blocks), right_scales = scales_of(ctx, right, blocks);
  const bool exact_sum = c.dtype == DType::f32 || blocks <= 1;
  const TensorView sum = exact_sum ? c : ctx.arena.allocate(DType::f32, c.shape);  // one rounding of the whole
  const auto operand = [&](const Side& side, const TensorView& scales, int64_t b) {
    ScaledOperand part{slice(side.quantized.codes, side, b * block, block), side.contracted == (&side == &left ? 0 : 1), {}, nullptr};
    if (scales.data != nullptr) part.scale = scales.slice_rows(b, 1).reshaped({scales.shape[1]});
    return part;
  };
  for (int64_t b = 0; b < blocks; ++b) {
    ArenaScope workspace(ctx.arena);
    run(ctx, operand(left, left_scales, b), operand(right, right_scales, b), offsets, sum,
        b > 0 || (exact_sum && mode == Write::accumulate) ? Write::accumulate : Write::overwrite);
  }
  if (exact_sum) return;
  mode == Write::accumulate ? accumulate(ctx.exec, sum, c) : copy(ctx.exec, sum, c);
}

}  // namespace

void multiply(StepContext& ctx, Product product, const Side& left, const Side& right, const TensorView& offsets, const TensorView& c, Write mode,
              Accumulation accumulation) {
  ArenaScope workspace(ctx.arena);
  if (product == Product::integer_blocks && left.matrix().numel() == 0) product = Product::values;  // nothing to divide into blocks
  if (product == Product::integer_blocks) return multiply_blocks(ctx, left, right, offsets, c, mode);
  const bool values = product == Product::values;
  const auto operand = [&](const Side& side, bool trans) { return values ? as_values(ctx, side, trans) : with_scale_behind(ctx, side, trans); };
  ScaledOperand a = operand(left, left.contracted == 0);
  const ScaledOperand b = operand(right, right.contracted == 1);
  // Integer products and those with a plain side are not what the setting is about.
  if (product == Product::codes && left.recipe != nullptr && right.recipe != nullptr) a.accumulation = accumulation;
  run(ctx, a, b, offsets, c, mode);
}

}  // namespace kvant::quant
