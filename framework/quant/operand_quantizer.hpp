// One operand of a quantized product: its codes and scales as its recipe says. Calibrations that only look at maxima go
// the fast way; those that search have the values of each scale laid out for them first.
#pragma once

#include "kernels/quantize_tiles.hpp"
#include "quant/recipe.hpp"

namespace kvant {
class Arena;
}

namespace kvant::quant {

/// True where the recipe asks for what matrices do not have, and quantize_operand goes by tiles: a search, a block rule
/// for scales, the reference's arithmetic in bfloat16.
bool goes_by_tiles(const OperandRecipe& recipe, DType type);

/// Runs the job with the recipe's calibration; `clip` of the job receives the ranges that a search found, too.
/// Workspace comes from the arena and goes back to it. Groups of rows of unequal size are searched one by one; throws kvant::Error
/// where the search takes no counts.
void quantize_operand(const Exec& exec, Arena& arena, const OperandRecipe& recipe, const QuantizeJob& job);

/// The same for tiles. job.codes, scale, zero_point, low and high as the job says; statistic, limits and the law's
/// factor are the calibration's.
void quantize_tiles(const Exec& exec, Arena& arena, const Codec& codec, const Calibration& calibration, TileJob job);

}  // namespace kvant::quant
