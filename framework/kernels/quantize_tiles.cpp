#include "kernels/quantize_tiles.hpp"

#include "kernels/quantize_tiles_kernel.hpp"
#include "tensor/dispatch.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

namespace kvant {
namespace quantize_detail {
namespace {

constexpr long cached_bytes = 256l << 10;  ///< of a piece that is looked at twice
constexpr long longest_run = 16384;        ///< elements of a row that one item measures

}  // namespace

TileGrid make_grid(const Shape& shape, const TileShape& tile, bool merge) {
  // Neighbouring axes are one where the tiles of the second span it, or those of the first are single indices.
  int64_t extents[max_rank] = {}, tiles[max_rank] = {};
  int axes = 0;
  for (int a = 0; a < shape.rank; ++a) {
    const int64_t d = shape[a], t = tile[static_cast<std::size_t>(a)];
    if (merge && axes > 0 && (t == d || tiles[axes - 1] == 1)) {
      tiles[axes - 1] = t == d ? tiles[axes - 1] * d : t;
      extents[axes - 1] *= d;
    } else {
      extents[axes] = d;
      tiles[axes++] = t;
    }
  }
  TileGrid g;
  g.leading = axes - 1;
  g.cols = extents[axes - 1];
  g.tile_cols = tiles[axes - 1];
  g.across = g.cols / g.tile_cols;
  for (int a = g.leading - 1; a >= 0; --a) {
    g.extent[a] = extents[a];
    g.tile[a] = tiles[a];
    g.stride[a] = g.rows;
    g.rows *= extents[a];
    g.band_rows *= tiles[a];
    g.bands *= extents[a] / tiles[a];
  }
  return g;
}

TilePieces cut_tiles(const TileGrid& g, std::size_t element, bool fused_allowed) {
  TilePieces p;
  const long bytes = static_cast<long>(element), t = g.tile_cols;
  const long least = t > 1 ? t : std::min<long>(g.cols, 16);  // columns of a piece that keep vectors busy
  p.fused = fused_allowed && g.band_rows * least * bytes <= cached_bytes;
  if (p.fused) {
    const long fitting = cached_bytes / (g.band_rows * t * bytes);
    p.rows = g.band_rows;
    p.cells = std::clamp<long>(fitting, 1, std::clamp<long>(g.across, 1, columns_of_tile));
  } else {
    p.rows = std::min<long>(g.band_rows, 64);
    p.down = (g.band_rows + p.rows - 1) / p.rows;
    if (t > longest_run) {
      p.width = longest_run;
      p.cuts = (t + longest_run - 1) / longest_run;
      p.across = g.across * p.cuts;
      return p;
    }
    p.cells = std::clamp<long>(longest_run / t, 1, std::clamp<long>(g.across, 1, columns_of_tile));
  }
  p.across = (g.across + p.cells - 1) / p.cells;
  return p;
}

namespace {

void check_shapes(const TileJob& job) {
  const Shape& shape = job.x.shape;
  require(job.x.dtype == DType::f32 || job.x.dtype == DType::bf16,
          "A tensor of type {} is not quantized; float32 and bfloat16 are.", name_of(job.x.dtype));
  require(shape.rank >= 1 && (job.x.contiguous() || (shape.rank == 2 && job.x.stride[1] == 1)),
          "A strided tensor of shape {} cannot be quantized.", to_string(shape));
  require(job.codes.shape == shape && job.codes.contiguous(), "Codes of shape {} do not fit a tensor of shape {}.",
          to_string(job.codes.shape), to_string(shape));
  const int64_t scales = job.statistic == Statistic::constant ? 1 : tile_count(shape, job.tile);
  const auto check = [&](const char* what, const TensorView& v, DType type, bool needed) {
    if (v.data == nullptr && !needed) return;
    require(v.data != nullptr && v.dtype == type && v.numel() == scales && v.contiguous(),
            "Quantizing a tensor of shape {} with {} scales: the {} is of type {} and shape {}; {} numbers of {} are "
            "needed.",
            to_string(shape), scales, what, name_of(v.dtype), to_string(v.shape), scales, name_of(type));
  };
  check("scale", job.scale, DType::f32, true);
  check("zero point", job.zero_point, DType::i32, false);
  check("upper end of the range", job.high, DType::f32, job.statistic == Statistic::given);
  check("lower end of the range", job.low, DType::f32,
        job.statistic == Statistic::given && job.zero_point.data != nullptr);
  if (job.multiplier.data != nullptr) {
    const Along along = job.multiplier_along;
    const int64_t wanted = along == Along::tensor ? 1 : shape[along == Along::row ? 0 : 1];
    require(shape.rank == 2 && job.multiplier.dtype == DType::f32 && job.multiplier.numel() == wanted,
            "A multiplier of shape {} does not fit a tensor of shape {}.", to_string(job.multiplier.shape),
            to_string(shape));
    require(along != Along::column || job.tile[1] > 1,
            "A matrix with a multiplier for each column has no scale for each column.");
  }
}

void check_law(const TileJob& job, const FormatFacts& format) {
  require(size_of(job.codes.dtype) == format.code_bytes, "Codes of {} bytes do not fit a tensor of {}.",
          format.code_bytes, name_of(job.codes.dtype));
  require(job.zero_point.data == nullptr || format.integer,
          "A range that is not symmetric needs a zero point, and only integers have one.");
  require(job.zero_point.data != nullptr || job.statistic != Statistic::minmax,
          "A range from minimum to maximum needs a tensor for zero points.");
  require(job.zero_point.data == nullptr || job.law.rule == ScaleRule::exact,
          "Scales that are powers of two or e4m3 numbers belong to symmetric ranges.");
  check_noise(job.noise, job.x.shape);
  require(job.outer.data == nullptr || (job.law.rule == ScaleRule::e4m3 && job.outer.numel() == 1),
          "An outer scale is one number and belongs to scales in e4m3.");
  if (job.statistic == Statistic::constant)
    require(job.low_limit <= 0 && job.high_limit >= 0 && job.low_limit < job.high_limit &&
                (job.zero_point.data != nullptr || job.high_limit == -job.low_limit),
            "The range [{}, {}] must contain 0, and be symmetric where there is no zero point.", job.low_limit,
            job.high_limit);
}

bool keeps_axes(const TileJob& job) {
  return job.multiplier.data != nullptr || job.noise.row_ids.data != nullptr || job.noise.by_row ||
         job.noise.given.data != nullptr || !job.x.contiguous();
}

TileGrid grid_of(const TileJob& job) {
  if (job.x.numel() == 0) return make_grid(job.x.shape, {1, 1, 1, 1}, false);
  // A constant range has one scale, whatever the tiles.
  return make_grid(job.x.shape, job.statistic == Statistic::constant ? job.x.shape.dim : job.tile, !keeps_axes(job));
}

TilePieces pieces_of(const TileJob& job, const TileGrid& grid) {
  const bool measured = job.statistic == Statistic::absmax || job.statistic == Statistic::minmax;
  return cut_tiles(grid, size_of(job.x.dtype), measured);
}

}  // namespace

template <class T>
TileProblem<T> tile_problem(const TileJob& job, const FormatFacts& format) {
  check_shapes(job);
  check_law(job, format);
  TileProblem<T> p;
  p.grid = grid_of(job);
  p.pieces = pieces_of(job, p.grid);
  if (job.x.numel() == 0) p.grid.bands = 0;
  p.in.x = static_cast<const T*>(job.x.data);
  p.in.rows = p.grid.rows;
  p.in.cols = p.grid.cols;
  p.in.stride = job.x.contiguous() ? p.grid.cols : job.x.stride[0];
  p.in.multiplier = job.multiplier.data == nullptr ? nullptr : job.multiplier.as<float>();
  p.in.along = job.multiplier.data == nullptr ? Along::tensor : job.multiplier_along;
  p.law.law = job.law;
  p.law.symmetric = job.zero_point.data == nullptr;
  p.law.bf16 = job.law.input_arithmetic && std::is_same_v<T, bf16_t>;
  p.law.one_scale = job.scale.numel() == 1;
  p.law.lowest = format.lowest;
  p.law.highest = format.highest;
  p.law.outer = static_cast<const float*>(job.outer.data);
  p.statistic = job.statistic;
  p.noise = noise_of_job(job.noise, job.x.cols());
  if (!job.noise.by_row) p.noise.row_step = p.grid.cols;  // of merged axes the elements are numbered all the same
  p.low_limit = job.low_limit;
  p.high_limit = job.high_limit;
  p.scale = job.scale.as<float>();
  p.low = static_cast<float*>(job.low.data);
  p.high = static_cast<float*>(job.high.data);
  p.zero_point = static_cast<int32_t*>(job.zero_point.data);
  p.workspace = static_cast<int32_t*>(job.workspace.data);
  const int64_t needed = tile_workspace(job);
  require(
      needed == 0 || (p.workspace != nullptr && job.workspace.dtype == DType::i32 && job.workspace.numel() >= needed),
      "Quantizing a tensor of shape {} in {} tiles needs {} int32 of workspace.", to_string(job.x.shape), p.scales(),
      needed);
  return p;
}
template TileProblem<float> tile_problem<float>(const TileJob&, const FormatFacts&);
template TileProblem<bf16_t> tile_problem<bf16_t>(const TileJob&, const FormatFacts&);

namespace {

template <class T>
KOKKOS_INLINE_FUNCTION void measure_shared(const TileProblem<T>& p, long item) {
  constexpr long most = columns_of_tile;
  const TilePiece piece = piece_of(p.grid, p.pieces, item);
  const long cells = (piece.end - piece.begin + p.grid.tile_cols - 1) / p.grid.tile_cols;
  int32_t high[most], low[most];
  for (long k = 0; k < cells; ++k) high[k] = low[k] = 0;
  measure_piece_of_tiles(p, piece, high, low);
  const long first = piece.band * p.grid.across + piece.cell;
  raise_shared(high, cells, p.workspace + first);
  if (!p.law.symmetric) raise_shared(low, cells, p.workspace + p.scales() + first);
}

template <class T>
KOKKOS_INLINE_FUNCTION void finish_tile(const TileProblem<T>& p, long i) {
  const long n = p.scales();
  TileScale s{};
  if (p.statistic == Statistic::given) {
    s = tile_scale(p.law, p.law.symmetric ? -p.high[i] : p.low[i], p.high[i]);
  } else if (p.statistic == Statistic::constant) {
    s = tile_scale(p.law, p.law.rounded(p.low_limit), p.law.rounded(p.high_limit));
  } else {
    s = scale_of_range(p.law, {p.workspace[i], p.law.symmetric ? 0 : p.workspace[n + i]});
  }
  p.store(i, s);
  p.workspace[i] = static_cast<int32_t>(bits_of(s.divisor));
  p.workspace[n + i] = static_cast<int32_t>(bits_of(s.zero));
}

}  // namespace

template <class T>
void tile_scales(const Exec& exec, const TileProblem<T>& p) {
  if (p.statistic == Statistic::absmax || p.statistic == Statistic::minmax) {
    auto* workspace = p.workspace;
    Kokkos::parallel_for(
        "kvant::reset_tiles", Range(exec.space, 0, 2 * p.scales()), KOKKOS_LAMBDA(const long i) { workspace[i] = 0; });
    Kokkos::parallel_for(
        "kvant::measure_tiles", Range(exec.space, 0, p.grid.bands * p.pieces.down * p.pieces.across),
        KOKKOS_LAMBDA(const long item) { measure_shared(p, item); });
  }
  Kokkos::parallel_for(
      "kvant::finish_tiles", Range(exec.space, 0, p.scales()), KOKKOS_LAMBDA(const long i) { finish_tile(p, i); });
}
template void tile_scales<float>(const Exec&, const TileProblem<float>&);
template void tile_scales<bf16_t>(const Exec&, const TileProblem<bf16_t>&);

bool check_decode(const TileDecode& job) {
  const int64_t tiles = tile_count(job.codes.shape, job.tile), scales = job.scale.numel();
  require(job.values.shape == job.codes.shape && job.values.contiguous() && job.codes.contiguous() &&
              (job.values.dtype == DType::f32 || job.values.dtype == DType::bf16),
          "Codes of shape {} do not decode into a tensor of {} of shape {}.", to_string(job.codes.shape),
          name_of(job.values.dtype), to_string(job.values.shape));
  require((scales == tiles || scales == 1) && (job.zero_point.data == nullptr || (job.zero_point.dtype == DType::i32 &&
                                                                                  job.zero_point.numel() == scales)),
          "{} scales and zero points of shape {} do not fit {} tiles of a tensor of shape {}.", scales,
          to_string(job.zero_point.shape), tiles, to_string(job.codes.shape));
  return scales == 1;
}

}  // namespace quantize_detail

namespace {

int64_t axis_extent(const Shape& shape, int axis) { return axis >= 0 && axis < shape.rank ? shape[axis] : 0; }

}  // namespace

int64_t tile_count(const Shape& shape, const TileShape& tile) {
  int64_t tiles = 1;
  std::string wrong;
  for (int a = 0; a < shape.rank; ++a) {
    const int64_t d = shape[a], t = tile[static_cast<std::size_t>(a)];
    if (t < 1 || d % t != 0)
      wrong += fmt::format("{}axis {} of {} by {}", wrong.empty() ? "" : ", ", a, d, t);
    else
      tiles *= d / t;
  }
  require(wrong.empty(), "A tensor of shape {} is not a whole number of tiles: {} does not divide.", to_string(shape),
          wrong);
  return tiles;
}

TileShape tile_shape(const Shape& shape, std::span<const int> channel_axes, std::span<const AxisTile> tiles) {
  TileShape tile{1, 1, 1, 1};
  std::array<bool, max_rank> seen{};
  std::string wrong;
  const auto take = [&](int axis) -> int64_t& {
    require(axis >= 0 && axis < shape.rank, "A tensor of shape {} has no axis {}.", to_string(shape), axis);
    const auto a = static_cast<std::size_t>(axis);
    require(!seen[a], "Axis {} of a tensor of shape {} is named twice, as a channel or with a tile.", axis,
            to_string(shape));
    seen[a] = true;
    return tile[a];
  };
  for (const int axis : channel_axes) take(axis) = 1;
  for (const AxisTile& t : tiles) {
    const int64_t extent = axis_extent(shape, t.axis);
    const int64_t size = t.size > 0 ? t.size : std::llrint(static_cast<double>(extent) * t.fraction);
    if (size < 1 || extent % size != 0)
      wrong += fmt::format("{}axis {} of {} by {}", wrong.empty() ? "" : ", ", t.axis, extent, size);
    take(t.axis) = size;
  }
  require(wrong.empty(), "A tensor of shape {} is not a whole number of tiles: {} does not divide.", to_string(shape),
          wrong);
  for (int a = 0; a < shape.rank; ++a)
    if (!seen[static_cast<std::size_t>(a)]) tile[static_cast<std::size_t>(a)] = std::max<int64_t>(1, shape[a]);
  return tile;
}

int64_t tile_workspace(const TileJob& job) {
  namespace detail = quantize_detail;
  const int64_t scales = job.statistic == Statistic::constant ? 1 : tile_count(job.x.shape, job.tile);
  return detail::pieces_of(job, detail::grid_of(job)).fused ? 0 : 2 * scales;
}

}  // namespace kvant
