// One tile of a product of fp8 codes on one thread with sums in float16, promoted to f32 every 128 steps. Operands and scratch as
// for f32 tiles. Internal to kernels/; no standard library header: see isa.hpp.
#pragma once

#include "kernels/isa/float_tile.hpp"

namespace kvant::isa {

inline constexpr int64_t half_tile_k = 128;  ///< f16 sums are as long as this

/// What codes are multiplied with to become f16: 128 products of the largest stay below 65504.
constexpr float half_factor(FloatSource type) { return type == FloatSource::e5m2 ? 0x1p-11f : 0x1p-5f; }

/// Where a register block's sums go: c = (c +) sum · factor, `columns` of them.
struct HalfStore {
  int64_t ldc;
  int columns;
  float factor;
  bool add;
};

/// Of the chosen ISA, which must have it (sums_in_half); the portable one has the element kernel instead.
FloatTileLeaf half_tile_leaf();

/// e4m3fn by e4m3fn, or one of the two e5m2; scales of blocks are not looked at.
void half_tile_avx512fp16(const FloatTile& tile);

}  // namespace kvant::isa
