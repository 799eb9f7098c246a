#include "quant/operand_quantizer.hpp"

#include "base/error.hpp"
#include "kernels/group_columns.hpp"
#include "kernels/tile_values.hpp"
#include "quant/codec.hpp"
#include "tensor/arena.hpp"

#include <algorithm>

namespace kvant::quant {
namespace {

/// A matrix job in the words of tiles; the reason why not, where it has none.
TileJob tiles_of(const QuantizeJob& job) {
  require(
      job.offsets.data == nullptr,
      "Groups of rows of unequal size are no tiles: calibrate the gradients of expert products with absmax or fixed, or a search "
      "that takes counts, without a block rule for their scales.");
  const int64_t rows = job.x.rows(), cols = job.x.cols();
  const bool grouped = job.uniform_group > 0 && job.scale_along == Along::column && job.scale.numel() != cols;
  TileJob tiles;
  tiles.x = job.x.shape.rank == 2 ? job.x : job.x.reshaped({rows, cols});
  tiles.codes = job.codes.reshaped({rows, cols});
  const int64_t high = std::max<int64_t>(1, grouped ? job.uniform_group : rows), wide = std::max<int64_t>(1, cols);
  tiles.tile = {job.scale_along == Along::row ? 1 : high, job.scale_along == Along::column ? 1 : wide, 1, 1};
  tiles.multiplier = job.multiplier;
  tiles.multiplier_along = job.multiplier_along;
  tiles.scale = job.scale;
  tiles.high = job.clip;
  tiles.law = job.law;
  tiles.noise = job.noise;
  return tiles;
}

/// The ranges of all tiles: found, and made sane.
void search(const Exec& exec, Arena& arena, const Codec& codec, const RangeSearch& range_search, const TileJob& job,
            const TensorView& ranges) {
  ArenaScope workspace(arena);
  const int64_t tiles = ranges.numel(), n = job.x.numel() / tiles;
  const TensorView values = arena.allocate(DType::f32, {tiles, n}), largest = arena.allocate(DType::f32, {tiles});
  gather_tiles(exec, job, values);
  tile_maxima(exec, values, largest);
  range_search.find(exec, {values, largest, &codec, job.law, job.x.dtype, ranges, arena});
  settle_ranges(exec, largest, job.law.reference_guard, ranges);
}

/// Scales of columns by groups of rows that differ in number: each group's ranges are searched for among its own rows.
void quantize_groups(const Exec& exec, Arena& arena, const OperandRecipe& recipe, QuantizeJob job) {
  const int64_t rows = job.x.rows(), cols = job.x.cols(), groups = job.offsets.numel() - 1;
  require(job.scale_along == Along::column && job.scale.numel() == groups * cols, "{} scales do not fit {} columns of {} groups.", job.scale.numel(), cols,
          groups);
  const DType type = job.x.dtype;
  GroupColumns group;
  group.x = arena.allocate(DType::f32, {rows, cols});
  store_multiplied(exec, job, group.x);
  group.offsets = job.offsets;
  group.values = arena.allocate(DType::f32, {cols, rows});
  group.counts = arena.allocate(DType::i32, {cols});
  group.largest = arena.allocate(DType::f32, {cols});
  const TensorView ranges = arena.allocate(DType::f32, {groups, cols});
  for (int64_t g = 0; g < groups; ++g) {
    const TensorView found = ranges.slice_rows(g, 1).reshaped({cols});
    gather_group_columns(exec, group, g);
    recipe.calibration.search->find(exec, {group.values, group.largest, recipe.codec, job.law, type, found, arena, group.counts});
    settle_ranges(exec, group.largest, job.law.reference_guard, found);
  }
  job.x = group.x;
  job.multiplier = {};
  job.magnitudes = ranges.reshaped({groups * cols});
  job.magnitudes.dtype = DType::i32;  // the bits of floats order like integers
  job.ranges_given = true;
  recipe.codec->quantize(exec, job);
}

}  // namespace

void quantize_tiles(const Exec& exec, Arena& arena, const Codec& codec, const Calibration& calibration, TileJob job) {
  ArenaScope workspace(arena);
  if (!calibration.measured) {
    job.statistic = Statistic::constant;
    job.low_limit = calibration.low;
    job.high_limit = calibration.high;
  } else if (calibration.search != nullptr) {
    require(!calibration.zero_point, "A search finds symmetric ranges.");
    job.statistic = Statistic::given;
    const int64_t tiles = tile_count(job.x.shape, job.tile);
    if (job.high.data == nullptr) job.high = arena.allocate(DType::f32, {tiles});
    if (job.x.numel() > 0) search(exec, arena, codec, *calibration.search, job, job.high);
  } else {
    job.statistic = calibration.zero_point ? Statistic::minmax : Statistic::absmax;
    job.law.factor = calibration.factor;
  }
  job.workspace = arena.allocate(DType::i32, {tile_workspace(job)});
  codec.quantize_tiles(exec, job);
}

bool goes_by_tiles(const OperandRecipe& recipe, DType type) {
  return recipe.calibration.search != nullptr || recipe.law.rule != ScaleRule::exact ||
         (recipe.law.input_arithmetic && type == DType::bf16);
}

void quantize_operand(const Exec& exec, Arena& arena, const OperandRecipe& recipe, const QuantizeJob& job) {
  if (!goes_by_tiles(recipe, job.x.dtype)) {
    recipe.codec->quantize(exec, job);
    return;
  }
  ArenaScope workspace(arena);
  QuantizeJob plain = job;
  if (job.x.numel() == 0) {  // scales of nothing are 1
    plain.law = {};
    plain.magnitudes = arena.allocate(DType::i32, {job.scale.numel()});
    recipe.codec->quantize(exec, plain);
    return;
  }
  const RangeSearch* search = recipe.calibration.search.get();
  if (job.offsets.data != nullptr && job.scale_along != Along::column) {  // the multiplier has groups, the scales have none
    plain.x = arena.allocate(DType::f32, {job.x.rows(), job.x.cols()});
    store_multiplied(exec, job, plain.x);
    plain.multiplier = plain.offsets = {};
    return quantize_tiles(exec, arena, *recipe.codec, recipe.calibration, tiles_of(plain));
  }
  if (job.offsets.data != nullptr && search != nullptr && search->takes_counts() && recipe.law.rule == ScaleRule::exact)
    return quantize_groups(exec, arena, recipe, plain);
  if (recipe.law.input_arithmetic && job.x.dtype == DType::bf16 && job.multiplier.data != nullptr) {
    plain.x = arena.allocate(DType::bf16, {job.x.rows(), job.x.cols()});
    store_multiplied(exec, job, plain.x);  // the reference rounds before it quantizes
    plain.multiplier = {};
  }
  quantize_tiles(exec, arena, *recipe.codec, recipe.calibration, tiles_of(plain));
}

}  // namespace kvant::quant
