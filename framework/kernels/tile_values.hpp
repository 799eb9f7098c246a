// The values of tiles one after the other (for calibrators that look at more than a maximum), what becomes of the ranges that they
// find, and gradients of operands whose tiles were clipped.
#pragma once

#include "kernels/quantize_tiles.hpp"

namespace kvant {

/// values (f32 [tiles, elements of a tile], dense): row i holds x · multiplier of the i-th tile in row-major order.
/// Reads x, tile and multiplier of the job.
void gather_tiles(const Exec& exec, const TileJob& job, const TensorView& values);

/// What every search of a range would otherwise have to think of: where the largest magnitude of a tile is no finite number
/// its range becomes NaN, and where the range found is not above 0 it becomes that magnitude. `reference`: a range of 0
/// stays, as it comes from squares that underflow, and one that is no finite number stays beside such a magnitude.
/// ranges, largest: f32 [tiles].
void settle_ranges(const Exec& exec, const TensorView& largest, bool reference, const TensorView& ranges);

/// dst = or += src where low <= reference <= high of its tile, else 0 or nothing: the straight-through gradient of an
/// operand that was clipped. reference f32 or bf16, src f32, dst f32 or bf16, all dense and of one shape. An empty
/// `low` stands for -high; bounds are f32, one for each tile or one for the whole tensor.
struct TileMask {
  TensorView reference;
  TileShape tile{};
  TensorView low, high;
};
void store_where_unclipped(const Exec& exec, const TileMask& mask, const TensorView& src, const TensorView& dst,
                           bool accumulate);

}  // namespace kvant
