#include "kernels/detail/host_tiles.hpp"

#include "base/kokkos.hpp"
#include "kernels/detail/tile_pool.hpp"

#include <unistd.h>

#include <cstring>
#include <limits>

namespace kvant::detail {
namespace {

int64_t ceil_div(int64_t a, int64_t b) { return (a + b - 1) / b; }
int64_t round_up(int64_t a, int64_t unit) { return ceil_div(a, unit) * unit; }

/// `length` in equal pieces of at most `most`, rounded up to the unit.
int64_t piece(int64_t length, int64_t most, int64_t unit) { return round_up(ceil_div(length, ceil_div(length, most)), unit); }

/// Estimated time of the pool with this shape. Tiles of one size come in rounds of one for each thread; otherwise, the
/// largest drawn first, it is all work over the threads and a part of a tile for the last to finish.
double makespan(const GroupExtent* groups, int64_t count, int64_t columns, int threads, TileShape shape, const TileLimits& limits) {
  constexpr double per_tile = 4e3;  // drawing a ticket, filling a pipeline
  double total = 0, largest = 0, smallest = std::numeric_limits<double>::max();
  int64_t tiles = 0;
  const int64_t tile_columns = piece(columns, shape.columns, limits.unit.columns);
  for (int64_t g = 0; g < count; ++g) {
    if (groups[g].rows == 0) continue;
    const int64_t tile_rows = piece(groups[g].rows, shape.rows, limits.unit.rows);
    const auto r = static_cast<double>(tile_rows), c = static_cast<double>(tile_columns);
    const double work = static_cast<double>(groups[g].k) * (limits.cost.multiply * r * c + limits.cost.row * r + limits.cost.column * c) + per_tile;
    const int64_t here = ceil_div(groups[g].rows, tile_rows) * ceil_div(columns, tile_columns);
    tiles += here;
    total += work * static_cast<double>(here);
    largest = std::max(largest, work);
    smallest = std::min(smallest, work);
  }
  if (threads == 1) return total;
  if (smallest > 0.9 * largest) return static_cast<double>(ceil_div(tiles, threads)) * largest;
  return std::max(largest, total / threads + 0.3 * total / static_cast<double>(std::max<int64_t>(tiles, 1)));
}

struct ClearRows {
  char* data;
  int64_t row_bytes, step_bytes;
  void operator()(long row) const { std::memset(data + row * step_bytes, 0, static_cast<std::size_t>(row_bytes)); }
};

}  // namespace

const GroupExtent* group_extents(const GemmProblem& p, Arena& workspace) {
  auto* groups = static_cast<GroupExtent*>(workspace.allocate_bytes(static_cast<std::size_t>(p.groups) * sizeof(GroupExtent)));
  if (p.grouping == Grouping::none) {
    *groups = {0, p.m, p.k};
    return groups;
  }
  const int64_t rows = p.grouping == Grouping::rows ? p.m : p.k;
  require(p.offsets[0] == 0, "The offsets of groups must begin with 0; they begin with {}.", p.offsets[0]);
  for (int64_t g = 0; g < p.groups; ++g) {
    const int64_t begin = p.offsets[g], end = p.offsets[g + 1];
    require(begin <= end && end <= rows, "The offsets of groups must rise to at most the number of rows, {}; group {} has rows {} to {}.",
            rows, g, begin, end);
    groups[g] = p.grouping == Grouping::rows ? GroupExtent{begin, end - begin, p.k} : GroupExtent{begin, p.m, end - begin};
  }
  return groups;
}

TileShape choose_tiles(const GroupExtent* groups, int64_t count, int64_t columns, int threads, const TileLimits& limits) {
  int64_t most_rows = limits.unit.rows;
  for (int64_t g = 0; g < count; ++g) most_rows = std::max(most_rows, groups[g].rows);
  TileShape best{std::min(most_rows, limits.most.rows), std::min(columns, limits.most.columns)};
  double best_time = std::numeric_limits<double>::max();
  const int64_t fewest_down = ceil_div(most_rows, limits.most.rows), fewest_across = ceil_div(columns, limits.most.columns);
  // Up to 4 tiles a thread each way: with fewer, uneven groups leave threads idle; with more, packing is all there is.
  const auto next = [](int64_t pieces) { return pieces + std::max<int64_t>(1, pieces / 4); };
  for (int64_t down = fewest_down; down <= fewest_down + 4 * threads; down = next(down))
    for (int64_t across = fewest_across; across <= fewest_across + 4 * threads; across = next(across)) {
      const TileShape shape{ceil_div(most_rows, down), ceil_div(columns, across)};
      if ((shape.rows < limits.unit.rows && down > fewest_down) || (shape.columns < limits.unit.columns && across > fewest_across)) continue;
      const double time = makespan(groups, count, columns, threads, shape, limits);
      if (time >= best_time) continue;
      best_time = time;
      best = shape;
    }
  return {round_up(best.rows, limits.unit.rows), round_up(best.columns, limits.unit.columns)};
}

TileList list_tiles(const GroupExtent* groups, int64_t count, int64_t columns, TileShape shape, TileShape unit, Arena& workspace) {
  TileList list;
  if (columns == 0) return list;
  const int64_t tile_columns = piece(columns, shape.columns, unit.columns);
  for (int64_t g = 0; g < count; ++g)
    if (groups[g].rows > 0) list.count += ceil_div(groups[g].rows, piece(groups[g].rows, shape.rows, unit.rows)) * ceil_div(columns, tile_columns);
  require(list.count < std::numeric_limits<int32_t>::max(), "A product was cut into {} tiles, more than can be counted in 31 bits.", list.count);
  auto* tile = static_cast<Tile*>(workspace.allocate_bytes(static_cast<std::size_t>(list.count) * sizeof(Tile)));
  list.tiles = tile;
  for (int64_t g = 0; g < count; ++g) {
    if (groups[g].rows == 0) continue;
    const int64_t tile_rows = piece(groups[g].rows, shape.rows, unit.rows);
    for (int64_t i = 0; i < groups[g].rows; i += tile_rows)
      for (int64_t j = 0; j < columns; j += tile_columns)
        *tile++ = {static_cast<int32_t>(g), static_cast<int32_t>(std::min(tile_rows, groups[g].rows - i)),
                   static_cast<int32_t>(std::min(tile_columns, columns - j)), static_cast<int32_t>(i), static_cast<int32_t>(j)};
  }
  if (count > 1) {  // the largest first, so that small ones fill the end
    const auto work = [&](const Tile& t) { return int64_t{t.rows} * t.columns * groups[t.group].k; };
    std::stable_sort(tile - list.count, tile, [&](const Tile& a, const Tile& b) { return work(a) > work(b); });
  }
  return list;
}

void clear_rows_beyond_groups(const Exec& exec, const GemmProblem& p, const GroupExtent* groups) {
  if (p.grouping != Grouping::rows || p.c.add) return;
  const int64_t used = p.groups == 0 ? 0 : groups[p.groups - 1].first + groups[p.groups - 1].rows;
  if (used == p.m) return;
  const auto size = static_cast<int64_t>(size_of(p.c.type));
  Kokkos::parallel_for("kvant::gemm_clear_rows", Kokkos::RangePolicy<HostExec, Kokkos::IndexType<long>>(host_space(exec.space), 0, p.m - used),
                       ClearRows{static_cast<char*>(p.c.data) + used * p.c.ld * size, p.n * size, p.c.ld * size});
}

int64_t level2_cache_bytes() {
#if defined(_SC_LEVEL2_CACHE_SIZE)
  static const int64_t bytes = std::max<int64_t>(sysconf(_SC_LEVEL2_CACHE_SIZE), 0);
#else
  static const int64_t bytes = 0;
#endif
  return bytes > 0 ? bytes : int64_t{512} << 10;
}

}  // namespace kvant::detail
