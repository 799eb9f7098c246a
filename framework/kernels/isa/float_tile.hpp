// One tile of an f32 product on one thread, whose operands may be stored in a narrower type: they are widened to f32 when
// they are packed, which costs next to nothing there. Internal to kernels/; no standard library header: see isa.hpp.
#pragma once

#include "kernels/isa/float_sources.hpp"
#include "kernels/isa/isa.hpp"

#include <stdint.h>

namespace kvant::isa {

struct FloatOperand {
  const void* data;
  int64_t ld;  ///< elements between rows as stored
  FloatSource type;
  bool trans;
  /// Multiplied into lane i (a row of op(a), a column of op(b)) of block q of the contracted axis as it is packed:
  /// scale[q * scale_step + i * scale_stride]; null: nothing.
  const float* scale = nullptr;
  int64_t scale_stride = 0, scale_step = 0;
};

/// c[m,n] = op(a) · op(b), or c += the same when `add`: shapes as in SgemmLeaf, sums too (k in blocks of 256, rising), so
/// an element depends on nothing but its row of a and its column of b: not on the tile, the ISA or the thread.
struct FloatTile {
  int64_t m, n, k;  ///< m is bounded by the scratch; each fits an int
  FloatOperand a, b;
  int64_t block;  ///< steps that share a scale; read where there are scales
  float* c;
  int64_t ldc;
  bool add;
  float* scratch;  ///< float_tile_scratch(m) floats on a 64-byte boundary, of this thread alone
};

inline constexpr int64_t float_tile_k = 256;  // depth of a packed block
inline constexpr int64_t float_tile_unit = 12;  // a multiple of every register block's rows
inline constexpr int64_t float_tile_columns = 128;

constexpr int64_t padded_rows(int64_t m) { return (m + float_tile_unit - 1) / float_tile_unit * float_tile_unit; }
/// Floats of scratch for tiles of up to m rows.
constexpr int64_t float_tile_scratch(int64_t m) { return float_tile_k * (padded_rows(m) + float_tile_columns); }

using FloatTileLeaf = void (*)(const FloatTile&);
FloatTileLeaf float_tile_leaf(Isa isa);

void float_tile_portable(const FloatTile& tile);
void float_tile_avx2(const FloatTile& tile);
void float_tile_avx512(const FloatTile& tile);

}  // namespace kvant::isa
