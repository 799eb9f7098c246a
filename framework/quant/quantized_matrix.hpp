// QuantizedMatrix: an operand of a product as codes with the scales of its tiles: rows, columns, blocks or the whole, as its
// recipe says; and how one is made and read back.
#pragma once

#include "kernels/quantize_tiles.hpp"
#include "ops/context.hpp"
#include "quant/range_state.hpp"
#include "quant/recipe.hpp"
#include "tensor/tensor.hpp"

namespace kvant {
class Arena;
struct MatmulSite;
}

namespace kvant::quant {

struct QuantizedMatrix {
  TensorView codes;       ///< [R,C]
  TileShape tile{};       ///< what shares a scale
  TensorView scale;       ///< f32, one for each tile
  TensorView zero_point;  ///< i32 like scale; empty: symmetric
  TensorView low, high;   ///< f32 like scale: beyond which values were clipped (symmetric: high alone); empty: nobody asks
};

/// The tile of a matrix [R,C] whose axis `contracted` is summed over. Rows come in groups of `group_rows` with scales of their
/// own where the recipe has them by expert (0: one group).
TileShape tile_of(const OperandRecipe& recipe, const Shape& matrix, int contracted, int64_t group_rows = 0);

/// Elements of the contracted axis, `length` long, that share a scale of this operand.
int64_t block_length(const OperandRecipe& recipe, const Tile& tile, int64_t length);

/// Memory for all parts that the recipe needs; the codes only where they are kept.
QuantizedMatrix allocate_quantized(Arena& arena, const OperandRecipe& recipe, const Shape& matrix, int contracted,
                                   int64_t group_rows = 0, bool keeps_codes = true);

/// One operand: x · multiplier of `source` (whose groups give the multiplier's, and of gradients of experts the scales' as
/// well), with its noise, into memory of allocate_quantized. scale_along, codes, scale, law and workspace of `source` are
/// filled in here. `state` is that of a recipe with delayed scaling, else null.
void quantize_matrix(StepContext& ctx, const OperandRecipe& recipe, QuantizeJob source, int contracted, RangeState* state,
                     const QuantizedMatrix& to);

/// Values from codes (f32 like codes): (code - zero point) · scale.
void dequantize_matrix(const Exec& exec, const OperandRecipe& recipe, const QuantizedMatrix& q, const TensorView& values);

/// The job of a recipe whose scales are of rows, columns or the tensor and come from maxima or constants: what a codec does in
/// one or two passes. Workspace from the arena.
QuantizeJob matrix_job(Arena& arena, const OperandRecipe& recipe, QuantizeJob source, int contracted, const QuantizedMatrix& to);

/// True where matrix_job says all of it.
bool is_matrix_job(const OperandRecipe& recipe, const RangeState* state);

/// Tells ctx.watch, if there is one, what quantization did to `source`. offsets: of scales by expert.
void watch_operand(StepContext& ctx, const MatmulSite& site, const char* operand, const OperandRecipe& recipe, const QuantizeJob& source,
                   const QuantizedMatrix& q);

}  // namespace kvant::quant
