#include "kernels/detail/float_gemm.hpp"

#include "base/kokkos.hpp"
#include "kernels/detail/host_tiles.hpp"
#include "kernels/detail/tile_pool.hpp"
#include "kernels/isa/float_tile.hpp"
#include "kernels/isa/half_tile.hpp"
#include "numerics/bf16.hpp"

namespace kvant::detail {
namespace {

isa::FloatSource source_of(DType type) {
  switch (type) {
    case DType::f32: return isa::FloatSource::f32;
    case DType::bf16: return isa::FloatSource::bf16;
    case DType::i8: return isa::FloatSource::i8;
    case DType::e4m3fn: return isa::FloatSource::e4m3fn;
    case DType::e5m2: return isa::FloatSource::e5m2;
    case DType::e4m3fnuz: return isa::FloatSource::e4m3fnuz;
    case DType::e5m2fnuz: return isa::FloatSource::e5m2fnuz;
    case DType::e2m1: return isa::FloatSource::e2m1;
    default: break;
  }
  fail("A product in float32 was given an operand of type {}; it takes float32, bfloat16, int8, float8 of e4m3fn, e5m2, e4m3fnuz and e5m2fnuz, and float4_e2m1fn.", name_of(type));
}

/// op(x) from `row` and `column` on, in group g.
isa::FloatOperand part(const GemmOperand& x, int64_t group, int64_t row, int64_t column) {
  const int64_t at = group * x.group_stride + (x.trans ? column * x.ld + row : row * x.ld + column);
  return {static_cast<const char*>(x.data) + at * static_cast<int64_t>(size_of(x.type)), x.ld, source_of(x.type), x.trans};
}

/// The scales of blocks from lane `index` on.
void add_scales(const GemmScale& s, int64_t group, int64_t index, isa::FloatOperand& x) {
  if (s.data == nullptr) return;
  x.scale = s.data + group * s.group_stride + index * s.stride;
  x.scale_stride = s.stride;
  x.scale_step = s.block_stride;
}

struct FloatTiles {
  GemmProblem problem;
  const GroupExtent* groups;
  const Tile* tiles;
  isa::FloatTileLeaf leaf;
  float* scratch;  // of each worker: packed blocks, then the sums of a tile that is not stored directly
  int64_t scratch_step, packed_floats;
  bool direct;

  void operator()(int index, int worker) const {
    const Tile& t = tiles[index];
    const GroupExtent& g = groups[t.group];
    const bool rows = problem.grouping == Grouping::rows, contraction = problem.grouping == Grouping::contraction;
    float* mine = scratch + worker * scratch_step;
    isa::FloatTile tile{};
    tile.m = t.rows;
    tile.n = t.columns;
    tile.k = g.k;
    tile.a = part(problem.a, 0, t.row + (rows ? g.first : 0), contraction ? g.first : 0);
    tile.b = part(problem.b, rows ? t.group : 0, contraction ? g.first : 0, t.column);
    tile.block = problem.block;
    if (problem.scales_in_values()) {
      add_scales(problem.scale_a, t.group, t.row + (rows ? g.first : 0), tile.a);
      add_scales(problem.scale_b, t.group, t.column, tile.b);
    }
    tile.scratch = mine;
    if (direct) {
      tile.c = static_cast<float*>(problem.c.data) + t.group * problem.c.group_stride + (t.row + (rows ? g.first : 0)) * problem.c.ld + t.column;
      tile.ldc = problem.c.ld;
      tile.add = problem.c.add;
      return leaf(tile);
    }
    tile.c = mine + packed_floats;
    tile.ldc = t.columns;
    leaf(tile);
    store_tile(problem, t.group, t.row + (rows ? g.first : 0), t.column, t.rows, t.columns, tile.c);
  }
};

/// v[j] = (v[j] * row_scale) * column_scale[j], those that are given.
void scale_row(const GemmProblem& p, int64_t group, int64_t row, int64_t column, int64_t columns, float* v) {
  if (!p.scaled()) return;
  if (p.scale_a.data != nullptr) {
    const float s = p.scale_a.data[group * p.scale_a.group_stride + row * p.scale_a.stride];
    for (int64_t j = 0; j < columns; ++j) v[j] *= s;
  }
  if (p.scale_b.data == nullptr) return;
  const float* s = p.scale_b.data + group * p.scale_b.group_stride + column * p.scale_b.stride;
  if (p.scale_b.stride == 0)
    for (int64_t j = 0; j < columns; ++j) v[j] *= s[0];
  else
    for (int64_t j = 0; j < columns; ++j) v[j] *= s[j];
}

template <class T>
void store_row(const float* v, int64_t columns, T* c, bool add) {
  if (add)
    for (int64_t j = 0; j < columns; ++j) c[j] = from_float<T>(to_float(c[j]) + v[j]);
  else
    for (int64_t j = 0; j < columns; ++j) c[j] = from_float<T>(v[j]);
}

}  // namespace

void store_tile(const GemmProblem& p, int64_t group, int64_t row, int64_t column, int64_t rows, int64_t columns, const float* sums) {
  constexpr int64_t at_once = 512;
  float line[at_once];
  for (int64_t i = 0; i < rows; ++i)
    for (int64_t j = 0; j < columns; j += at_once) {
      const int64_t count = std::min(at_once, columns - j);
      std::copy(sums + i * columns + j, sums + i * columns + j + count, line);
      scale_row(p, group, row + i, column + j, count, line);
      const int64_t to = group * p.c.group_stride + (row + i) * p.c.ld + column + j;
      if (p.c.type == DType::bf16)
        store_row(line, count, static_cast<bf16_t*>(p.c.data) + to, p.c.add);
      else
        store_row(line, count, static_cast<float*>(p.c.data) + to, p.c.add);
    }
}

void float_gemm_on_host(const Exec& exec, const GemmProblem& p, Arena& workspace) {
  if (p.m == 0 || p.n == 0) return;
  const ArenaScope scope(workspace);
  const GroupExtent* groups = group_extents(p, workspace);
  clear_rows_beyond_groups(exec, p, groups);
  const bool direct = p.c.type == DType::f32 && !p.scaled();
  const int workers = pool_workers(exec);
  // Half of the second-level cache holds a packed block of rows; the costs are those of AVX-512 (and of AVX2 on its scale).
  const int64_t cached_rows = std::clamp<int64_t>(level2_cache_bytes() / (isa::float_tile_k * 4), 120, 960);
  const TileLimits limits{{cached_rows / isa::float_tile_unit * isa::float_tile_unit, direct ? 2048 : 512},
                          {isa::float_tile_unit, 32}, {1.0 / 16, 1.3, 1.3}};
  const TileShape shape = choose_tiles(groups, p.groups, p.n, workers, limits);
  const TileList list = list_tiles(groups, p.groups, p.n, shape, limits.unit, workspace);
  const int64_t packed = isa::float_tile_scratch(shape.rows);
  const int64_t step = packed + (direct ? 0 : shape.rows * shape.columns) + 64;  // a skew between workers
  auto* scratch = static_cast<float*>(workspace.allocate_bytes(static_cast<std::size_t>(workers * step) * sizeof(float)));
  run_pool(exec, p.half_sums ? "kvant::half_gemm" : "kvant::gemm", list.count,
           FloatTiles{p, groups, list.tiles, p.half_sums ? isa::half_tile_leaf() : isa::float_tile_leaf(chosen_isa()), scratch, step, packed, direct}, workspace);
}

}  // namespace kvant::detail
