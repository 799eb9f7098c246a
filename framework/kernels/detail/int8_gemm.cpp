#include "kernels/detail/int8_gemm.hpp"

#include "base/kokkos.hpp"
#include "kernels/detail/float_gemm.hpp"
#include "kernels/detail/host_tiles.hpp"
#include "kernels/detail/tile_pool.hpp"
#include "kernels/isa/int8_tile.hpp"

#include <algorithm>
#include <utility>

namespace kvant::detail {
namespace {

constexpr std::size_t alignment = 64;
std::size_t aligned(int64_t bytes) { return (static_cast<std::size_t>(bytes) + alignment - 1) / alignment * alignment; }

/// Lanes first .. of an operand whose other axis is contracted, from step `step` on: rows of op(a), columns of op(b).
isa::Int8Source source(const GemmOperand& x, bool lanes_are_rows, int64_t group, int64_t lane, int64_t step) {
  const bool steps_outer = x.trans == lanes_are_rows;
  const auto* data = static_cast<const int8_t*>(x.data) + group * x.group_stride;
  return {data + (steps_outer ? step * x.ld + lane : lane * x.ld + step), x.ld, steps_outer};
}

/// How a group's contracted axis is cut: into `count` blocks of `length` steps, each packed by itself.
struct Blocks {
  int64_t count, length;
};
Blocks blocks_of(int64_t block, int64_t k) { return block > 0 ? Blocks{k / block, block} : Blocks{1, k}; }

/// Bytes from the packed columns (rows) of one block to those of the next.
int64_t column_step(const isa::Int8Layout& layout, int64_t columns, int64_t length) { return static_cast<int64_t>(aligned(layout.column_offset(columns, length))); }
int64_t row_step(const isa::Int8Layout& layout, int64_t rows, int64_t length) { return static_cast<int64_t>(aligned(layout.row_offset(rows, length))); }

/// Where a group's packed columns lie.
struct PackedGroup {
  int8_t* b;
  int32_t* sums;
};

/// Some columns of one group.
struct PackJob {
  int32_t group, first, count;
};

/// Columns first .. of all blocks of a group's `columns` columns.
void pack_lanes(const isa::Int8Leaf& leaf, const GemmOperand& b, int64_t group, int64_t step, Blocks blocks, int64_t columns, int64_t first, int64_t count,
                const PackedGroup& to) {
  const int64_t bytes = column_step(leaf.layout, columns, blocks.length), sums = leaf.layout.padded_columns(columns);
  for (int64_t q = 0; q < blocks.count; ++q)
    leaf.pack_columns(source(b, false, group, first, step + q * blocks.length), count, blocks.length,
                      to.b + q * bytes + leaf.layout.column_offset(first, blocks.length), to.sums + q * sums + first);
}

struct PackWork {
  GemmProblem problem;
  const isa::Int8Leaf* leaf;
  const GroupExtent* groups;
  const PackedGroup* packed;
  const PackJob* jobs;

  void operator()(int index, int) const {
    const PackJob& j = jobs[index];
    const bool rows = problem.grouping == Grouping::rows, contraction = problem.grouping == Grouping::contraction;
    pack_lanes(*leaf, problem.b, rows ? j.group : 0, contraction ? groups[j.group].first : 0, blocks_of(problem.block, groups[j.group].k), problem.n, j.first,
               j.count, packed[j.group]);
  }
};

constexpr float one = 1.0f;

struct MultiplyWork {
  GemmProblem problem;
  const isa::Int8Leaf* leaf;
  const GroupExtent* groups;
  const PackedGroup* packed;
  const Tile* tiles;
  uint8_t* scratch;  // of each worker: its packed rows, then a tile that is not stored directly
  int64_t scratch_step, row_bytes;

  void operator()(int index, int worker) const {
    const Tile& t = tiles[index];
    const GroupExtent& g = groups[t.group];
    const int64_t row = t.row + (problem.grouping == Grouping::rows ? g.first : 0);
    if (g.k == 0 && problem.c.add) return;
    // Every worker packs the rows of its tile for itself: they stay in its cache, where those that another packed are not.
    uint8_t* mine = scratch + worker * scratch_step;
    const Blocks blocks = blocks_of(problem.block, g.k);
    const int64_t step = problem.grouping == Grouping::contraction ? g.first : 0;
    isa::Int8Tile tile{};
    tile.blocks = blocks.count;
    tile.a_step = row_step(leaf->layout, t.rows, blocks.length);
    tile.b_step = column_step(leaf->layout, problem.n, blocks.length);
    tile.sums_step = leaf->layout.padded_columns(problem.n);
    for (int64_t q = 0; q < blocks.count; ++q)
      leaf->pack_rows(source(problem.a, true, 0, row, step + q * blocks.length), t.rows, blocks.length, mine + q * tile.a_step);
    tile.m = t.rows;
    tile.n = t.columns;
    tile.k = blocks.length;
    tile.a = mine;
    tile.b = packed[t.group].b + leaf->layout.column_offset(t.column, blocks.length);
    tile.sums = packed[t.group].sums + t.column;
    tile.row_scale = at(problem.scale_a, t.group, row);
    tile.row_stride = problem.scale_a.stride;
    tile.row_scale_step = problem.scale_a.block_stride;
    tile.column_scale = at(problem.scale_b, t.group, t.column);
    tile.column_stride = problem.scale_b.stride;
    tile.column_scale_step = problem.scale_b.block_stride;
    tile.add = problem.c.add;
    if (problem.c.type == DType::f32) {
      tile.c = static_cast<float*>(problem.c.data) + t.group * problem.c.group_stride + row * problem.c.ld + t.column;
      tile.ldc = problem.c.ld;
      return leaf->multiply(tile);
    }
    tile.c = reinterpret_cast<float*>(mine + row_bytes);
    tile.ldc = t.columns;
    tile.add = false;
    leaf->multiply(tile);
    GemmProblem finished = problem;
    finished.scale_a = finished.scale_b = {};
    store_tile(finished, t.group, row, t.column, t.rows, t.columns, tile.c);
  }

  static const float* at(const GemmScale& s, int64_t group, int64_t index) {
    return s.data == nullptr ? &one : s.data + group * s.group_stride + index * s.stride;
  }
};

/// Memory for the packed columns of all groups, or where they lie in `ready`, when that is given.
const PackedGroup* place_groups(const GemmProblem& p, const isa::Int8Layout& layout, const GroupExtent* groups, void* ready, Arena& workspace) {
  const auto count = static_cast<std::size_t>(p.groups);
  auto* packed = static_cast<PackedGroup*>(workspace.allocate_bytes(count * sizeof(PackedGroup)));
  std::size_t bytes = 0, sums = 0;
  const auto sizes = [&](std::size_t g) {
    const Blocks blocks = blocks_of(p.block, groups[g].k);
    return std::pair(static_cast<std::size_t>(blocks.count * column_step(layout, p.n, blocks.length)),
                     static_cast<std::size_t>(blocks.count * layout.padded_columns(p.n)));
  };
  for (std::size_t g = 0; g < count; ++g) {
    bytes += sizes(g).first;
    sums += sizes(g).second;
  }
  auto* b = static_cast<int8_t*>(ready != nullptr ? ready : workspace.allocate_bytes(bytes));
  auto* s = static_cast<int32_t*>(ready != nullptr ? static_cast<void*>(b + bytes) : workspace.allocate_bytes(sums * sizeof(int32_t)));
  for (std::size_t g = 0; g < count; ++g) {
    packed[g] = {b, s};
    b += sizes(g).first;
    s += sizes(g).second;
  }
  return packed;
}

int64_t ceil_div(int64_t a, int64_t b) { return (a + b - 1) / b; }

/// Packs the columns of all groups, two panels a job.
void pack_columns(const Exec& exec, const GemmProblem& p, const isa::Int8Leaf& leaf, const GroupExtent* groups, const PackedGroup* packed,
                  Arena& workspace) {
  const int64_t columns = 2 * leaf.layout.column_panel;
  int64_t count = 0;
  for (int64_t g = 0; g < p.groups; ++g)
    if (groups[g].rows > 0) count += ceil_div(p.n, columns);
  auto* jobs = static_cast<PackJob*>(workspace.allocate_bytes(static_cast<std::size_t>(count) * sizeof(PackJob)));
  PackJob* job = jobs;
  for (int64_t g = 0; g < p.groups; ++g)
    for (int64_t j = 0; groups[g].rows > 0 && j < p.n; j += columns)
      *job++ = {static_cast<int32_t>(g), static_cast<int32_t>(j), static_cast<int32_t>(std::min(columns, p.n - j))};
  run_pool(exec, "kvant::int8_pack", count, PackWork{p, &leaf, groups, packed, jobs}, workspace);
}

TileLimits limits_of(const isa::Int8Layout& layout, int64_t longest, bool direct) {
  const int64_t row_bytes = std::max<int64_t>(layout.depth(longest) * layout.row_bytes, 1);
  const int64_t rows = std::clamp<int64_t>(level2_cache_bytes() / 2 / row_bytes, 48, 1024) / layout.row_panel * layout.row_panel;
  // Four steps an instruction in 16 lanes, or two in 8; a row is packed, a column read from far.
  const double multiply = layout.unit == 4 ? 1.0 / 64 : 1.0 / 24;
  return {{rows, direct ? 4096 : 512}, {layout.row_panel, layout.column_panel}, {multiply, 0.5, 0.1}};
}

struct PackColumnsBody {
  const isa::Int8Leaf* leaf;
  GemmOperand b;
  Blocks blocks;
  int64_t columns, chunk, chunks, group_bytes, group_sums;
  int8_t* to;
  int32_t* sums;

  void operator()(long index) const {
    const int64_t group = index / chunks, first = index % chunks * chunk;
    pack_lanes(*leaf, b, group, 0, blocks, columns, first, std::min(chunk, columns - first), {to + group * group_bytes, sums + group * group_sums});
  }
};

}  // namespace

void int8_gemm_on_host(const Exec& exec, const GemmProblem& p, const PackedOperand* ready, Arena& workspace) {
  if (p.m == 0 || p.n == 0) return;
  const ArenaScope scope(workspace);
  const GroupExtent* groups = group_extents(p, workspace);
  int64_t longest = 0;
  for (int64_t g = 0; g < p.groups; ++g) longest = std::max(longest, groups[g].k);
  require(p.fixed_point || blocks_of(p.block, longest).length <= max_int8_contraction, "A product of int8 codes sums over {} elements; more than {} could overflow its int32 sum.", longest,
          max_int8_contraction);
  clear_rows_beyond_groups(exec, p, groups);
  const isa::Int8Leaf& leaf = p.fixed_point ? isa::fixed_avx2() : isa::int8_leaf(chosen_isa());
  const PackedGroup* packed = place_groups(p, leaf.layout, groups, ready == nullptr ? nullptr : ready->data, workspace);
  if (ready == nullptr) pack_columns(exec, p, leaf, groups, packed, workspace);

  const bool direct = p.c.type == DType::f32;
  const int workers = pool_workers(exec);
  const TileLimits limits = limits_of(leaf.layout, longest, direct);
  const TileShape shape = choose_tiles(groups, p.groups, p.n, workers, limits);
  const TileList list = list_tiles(groups, p.groups, p.n, shape, limits.unit, workspace);
  const Blocks longest_blocks = blocks_of(p.block, longest);
  const int64_t row_bytes = longest_blocks.count * row_step(leaf.layout, shape.rows, longest_blocks.length);
  const int64_t step = row_bytes + static_cast<int64_t>(aligned(direct ? 0 : shape.rows * shape.columns * 4)) + 256;  // a skew between workers
  auto* scratch = static_cast<uint8_t*>(workspace.allocate_bytes(static_cast<std::size_t>(workers * step)));
  run_pool(exec, p.fixed_point ? "kvant::fixed_point_gemm" : "kvant::int8_gemm", list.count, MultiplyWork{p, &leaf, groups, packed, list.tiles, scratch, step, row_bytes}, workspace);
}

std::size_t int8_packed_bytes(Isa isa, int64_t groups, int64_t contracted, int64_t columns, int64_t block) {
  const isa::Int8Layout& layout = isa::int8_leaf(isa).layout;
  const Blocks blocks = blocks_of(block, contracted);
  return static_cast<std::size_t>(groups * blocks.count) *
         (static_cast<std::size_t>(column_step(layout, columns, blocks.length)) + static_cast<std::size_t>(layout.padded_columns(columns)) * sizeof(int32_t));
}

void int8_pack(const Exec& exec, Isa isa, const GemmOperand& b, int64_t groups, int64_t contracted, int64_t columns, int64_t block, void* to) {
  if (groups == 0 || columns == 0) return;
  const isa::Int8Leaf& leaf = isa::int8_leaf(isa);
  const Blocks blocks = blocks_of(block, contracted);
  const int64_t chunk = 2 * leaf.layout.column_panel, chunks = ceil_div(columns, chunk);
  const int64_t group_bytes = blocks.count * column_step(leaf.layout, columns, blocks.length);
  auto* data = static_cast<int8_t*>(to);
  const PackColumnsBody body{&leaf, b,  blocks, columns, chunk, chunks, group_bytes, blocks.count * leaf.layout.padded_columns(columns),
                             data,  reinterpret_cast<int32_t*>(data + groups * group_bytes)};
  Kokkos::parallel_for("kvant::int8_pack", Kokkos::RangePolicy<HostExec, Kokkos::IndexType<long>>(host_space(exec.space), 0, groups * chunks), body);
}

}  // namespace kvant::detail
