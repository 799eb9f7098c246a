// Scales of tiles, laid out as a product in blocks of its contracted axis wants them.
#pragma once

#include "kernels/quantize_tiles.hpp"

namespace kvant {

struct Exec;

/// out (f32 [blocks, channels], dense) from the scales of a matrix [R,C] in tiles. contracted = 1: channels are the R rows and
/// blocks run along the columns; contracted = 0: channels are the C columns of each group of `group_rows` rows (all of R: one
/// group), blocks run along the rows of a group. Each block lies within a tile. One scale for the whole matrix is accepted.
void scales_by_block(const Exec& exec, const TensorView& scale, const Shape& matrix, const TileShape& tile, int contracted,
                     int64_t group_rows, const TensorView& out);

/// to (f32 [1]): the outer scale of two-level scales, largest |v| / (bound · 448), so that the scale of the largest tile is the
/// largest e4m3 number; 1 where all is zero, NaN where the bits of `magnitude` (i32 [1]) are those of no finite number.
void outer_scale(const Exec& exec, const TensorView& magnitude, float bound, const TensorView& to);

}  // namespace kvant
