// Quantization of a tensor of any rank with one scale for each tile: a tile extent for every axis (1: a scale for each
// index, a channel; the axis' own: one scale for all; else a block). One tensor, rows, columns, 1×32, 128×128 and the
// cells of an attention projection are all such tiles; quantize.hpp has the matrices with ragged groups of rows. This
// header is the description of a job, free of Kokkos; the kernels are templates on the format
// (quantize_tiles_kernel.hpp).
//
//   v = x · multiplier      symmetric:  s from m = factor · max|v|,  code = encode(v / s),        value = code · s
//                           zero point: s = (hi - lo) / (highest - lowest code), lo <= 0 <= hi,
//                                       z = round(lowest - lo / s),  code = encode(v / s + z),    value = (code - z) ·
//                                       s
#pragma once

#include "kernels/quantize.hpp"

#include <array>
#include <span>

namespace kvant {

/// Extents of a tile, one for each axis of the tensor; each divides its axis.
using TileShape = std::array<int64_t, max_rank>;

/// What the range of a tile is.
enum class Statistic : uint8_t {
  absmax,    ///< [-m, m], m = factor · max|v|
  minmax,    ///< [factor · min(v, 0), factor · max(v, 0)]
  given,     ///< read from low and high (a calibrator found it)
  constant,  ///< [low_limit, high_limit], one scale for the tensor
};

struct TileJob {
  TensorView x;  ///< f32 or bf16, rank 1 to 4; a matrix may have strided rows, all else is dense
  TileShape tile{};
  TensorView multiplier;  ///< f32 [R], [C] or [1] of a matrix [R,C], or empty
  Along multiplier_along = Along::row;

  TensorView codes;       ///< like x, dense, one code in each element
  TensorView scale;       ///< f32, result: one for each tile, in the order of the tiles; `constant`: one
  TensorView zero_point;  ///< i32 like scale, result; empty: symmetric. Integers only
  ScaleLaw law;
  Statistic statistic = Statistic::absmax;
  TensorView low,
      high;  ///< f32 like scale: the range (symmetric: high alone); results, or read if it is given. Or empty
  float low_limit = 0, high_limit = 0;
  TensorView outer;  ///< f32 [1], or empty: the outer scale of ScaleRule::e4m3; codes are those of v / (scale)
  NoiseJob noise;
  TensorView workspace;  ///< i32 [tile_workspace(job)]
};

/// A tile of one axis: so many elements, or this fraction of the axis (1/4: four tiles), rounded.
struct AxisTile {
  int axis = 0;
  int64_t size = 0;     ///< 0: see fraction
  double fraction = 0;  ///< 1: the whole axis
};
/// The tile of a tensor of this shape: 1 on channel axes, as given on tiled ones, the whole axis elsewhere. Throws
/// kvant::Error for axes that are not there or named twice, and for tiles that do not divide: all of them at once.
TileShape tile_shape(const Shape& shape, std::span<const int> channel_axes, std::span<const AxisTile> tiles);

/// Number of tiles of a shape. Throws kvant::Error, naming every axis that its tile does not divide.
int64_t tile_count(const Shape& shape, const TileShape& tile);
/// Elements of i32 workspace that a job needs: 0 where a tile fits into the cache and is read once.
int64_t tile_workspace(const TileJob& job);

/// Values from codes and scales of tiles: (code - z) · s, in float32, or with every result rounded to the type of
/// `values`.
struct TileDecode {
  TensorView codes;
  TileShape tile{};
  TensorView scale, zero_point;  ///< as TileJob has them; one scale for the whole tensor is always accepted
  TensorView values;             ///< f32 or bf16, dense like codes
  bool value_arithmetic = false;
};

}  // namespace kvant
