// Describe -> choose -> run on CPUs: cuts a product (of all its groups) into tiles that one thread does.
#pragma once

#include "kernels/detail/gemm_problem.hpp"
#include "tensor/arena.hpp"

#include <cstdint>

namespace kvant {
struct Exec;
}

namespace kvant::detail {

/// Largest tile. Results do not depend on it: an element is summed in an order of its own (kernels/isa/float_tile.hpp).
struct TileShape {
  int64_t rows = 0, columns = 0;
};

/// What a tile costs for each step of the contracted axis, in cycles: `multiply` an element of c, `row` and `column` for
/// packing one of the tile's rows or columns (paid again in every tile that needs it).
struct TileCost {
  double multiply, row, column;
};

/// What tiles are made of: most of them, and the granularity that registers like.
struct TileLimits {
  TileShape most, unit;
  TileCost cost;
};

/// A group's product: `rows` x n elements, `k` steps each. `first` is its first row of a (contraction: contracted row).
struct GroupExtent {
  int64_t first, rows, k;
};

/// The extents of all groups, read from the offsets on the host; in memory of the workspace. Throws unless the offsets
/// rise from 0 to at most the number of rows.
const GroupExtent* group_extents(const GemmProblem& problem, Arena& workspace);

/// The largest shape within the limits whose tiles keep `threads` threads busy with the least work.
TileShape choose_tiles(const GroupExtent* groups, int64_t count, int64_t columns, int threads, const TileLimits& limits);

/// One tile of one group.
struct Tile {
  int32_t group, rows, columns;
  int32_t row, column;  ///< first row and column within the group's product
};

/// All tiles, in memory of the workspace.
struct TileList {
  const Tile* tiles = nullptr;
  int64_t count = 0;
};
TileList list_tiles(const GroupExtent* groups, int64_t count, int64_t columns, TileShape shape, TileShape unit, Arena& workspace);

/// Stores zeros in the rows of c that belong to no group, when overwriting.
void clear_rows_beyond_groups(const Exec& exec, const GemmProblem& problem, const GroupExtent* groups);

/// Bytes of the second-level cache of a core, or 512 KiB where the system does not say.
int64_t level2_cache_bytes();

}  // namespace kvant::detail
