// int8 by int8 on one thread: packing into the order in which a micro-kernel reads, and tiles of packed operands with
// their scales. Internal to kernels/; no standard library header: see isa.hpp.
//
// Both operands are stored in panels: groups of `unit` consecutive steps of the contracted axis (as many as one instruction
// sums) of all rows (columns) of a panel, then the next group. The contracted axis is padded with zeros to whole groups.
#pragma once

#include "kernels/isa/isa.hpp"

#include <stdint.h>

namespace kvant::isa {

struct Int8Layout {
  int32_t row_panel;     ///< rows in a panel of the left operand
  int32_t row_bytes;     ///< bytes of its elements: 1, or 2 where they are widened when packed
  int32_t column_panel;  ///< columns in a panel of the right operand
  int32_t column_unit;   ///< the last panel is as wide as it must be, rounded up to this
  int32_t unit;          ///< steps of the contracted axis that belong together
  int32_t column_bytes = 1;  ///< bytes of an element of the right operand: 2 where it is widened, too

  constexpr int64_t depth(int64_t k) const { return (k + unit - 1) / unit * unit; }
  constexpr int64_t padded_rows(int64_t m) const { return (m + row_panel - 1) / row_panel * row_panel; }
  constexpr int64_t padded_columns(int64_t n) const { return (n + column_unit - 1) / column_unit * column_unit; }
  /// Bytes of m packed rows (n columns); the panel of row i (column j) begins at that many bytes for i rows (j columns).
  constexpr int64_t row_offset(int64_t m, int64_t k) const { return padded_rows(m) * depth(k) * row_bytes; }
  constexpr int64_t column_offset(int64_t n, int64_t k) const { return padded_columns(n) * depth(k) * column_bytes; }
};

/// Element (i, p) of `lanes` rows or columns by k steps: data[p * ld + i] when `steps_outer`, else data[i * ld + p].
struct Int8Source {
  const int8_t* data;
  int64_t ld;
  bool steps_outer;
};

/// c[m,n] = sum over blocks of (acc * row_scale[i]) * column_scale[j], or c += the same. With more than one block the operands
/// of a block are packed by themselves, and everything has a distance to that of the next block.
struct Int8Tile {
  int64_t m, n, k;      ///< k: steps of one block
  const void* a;        ///< packed rows, at the beginning of a panel
  const int8_t* b;      ///< packed columns, at the beginning of a panel
  const int32_t* sums;  ///< of the columns of b over k
  const float* row_scale;
  int64_t row_stride;  ///< 0 or 1
  const float* column_scale;
  int64_t column_stride;
  float* c;
  int64_t ldc;
  bool add;
  int64_t blocks = 1;
  int64_t a_step = 0, b_step = 0;  ///< bytes
  int64_t sums_step = 0, row_scale_step = 0, column_scale_step = 0;
};

/// The registers' part of a tile: the rows and columns that a micro-kernel sums over one block.
struct Int8Part {
  int64_t k;
  const int32_t* sums;
  const float* row_scale;
  int64_t row_stride;
  const float* column_scale;
  int64_t column_stride;
  float* c;
  int64_t ldc, columns;  ///< columns: how many exist, which may be more than the registers have
  bool add;
};

/// Calls multiply(part, block) for `Rows` rows from i and up to `Columns` columns from j on, block by block. The sums of several
/// blocks wait in the first-level cache: the registers are full of integers.
template <int Rows, int Columns, class Multiply>
void in_blocks(const Int8Tile& t, int64_t i, int64_t j, const Multiply& multiply) {
  Int8Part part{t.k,   t.sums + j,          t.row_scale + i * t.row_stride, t.row_stride, t.column_scale + j * t.column_stride, t.column_stride,
                t.c + i * t.ldc + j, t.ldc, t.n - j,                        t.add};
  if (t.blocks == 1) return multiply(part, 0);
  // c may come from far: asked for now, it is there at the end.
  for (int x = 0; x < Rows; ++x)
    for (int64_t y = 0; y < Columns; y += 16) __builtin_prefetch(part.c + x * t.ldc + y);
  alignas(64) float sum[Rows * Columns];
  part.c = sum;
  part.ldc = Columns;
  for (int64_t q = 0; q < t.blocks; ++q) {
    part.add = q > 0;
    multiply(part, q);
    part.sums += t.sums_step;
    part.row_scale += t.row_scale_step;
    part.column_scale += t.column_scale_step;
  }
  const int64_t columns = part.columns < Columns ? part.columns : Columns;
  for (int x = 0; x < Rows; ++x) {
    float* c = t.c + (i + x) * t.ldc + j;
    for (int64_t y = 0; y < columns; ++y) c[y] = t.add ? c[y] + sum[x * Columns + y] : sum[x * Columns + y];
  }
}

struct Int8Leaf {
  Int8Layout layout;
  /// Packs m rows, from the beginning of a panel on.
  void (*pack_rows)(const Int8Source& from, int64_t m, int64_t k, void* to);
  /// Packs n columns, from the beginning of a panel on, and writes their sums (padded_columns(n) of them).
  void (*pack_columns)(const Int8Source& from, int64_t n, int64_t k, int8_t* to, int32_t* sums);
  void (*multiply)(const Int8Tile& tile);
};

const Int8Leaf& int8_leaf(Isa isa);

// float8_e4m3fn by float8_e4m3fn in 12-bit fixed point: codes are read as 1-byte elements, sums of columns are not made.
inline constexpr int64_t fixed_block = 128;             ///< steps in one int32 sum
inline constexpr float fixed_unit = 4095.0f / 448.0f;   ///< integer = nearest to value · fixed_unit
inline constexpr float fixed_step = (448.0f / 4095.0f) * (448.0f / 4095.0f);  ///< what a sum is multiplied with
/// Every ISA but portable, for which there is none.
const Int8Leaf& fixed_avx2();

// Functions: a HIP compiler copies a constant at namespace scope to the device, where these functions are missing.
const Int8Leaf& int8_portable();
const Int8Leaf& int8_avx2();
const Int8Leaf& int8_avxvnni();
const Int8Leaf& int8_avx512vnni();

}  // namespace kvant::isa
