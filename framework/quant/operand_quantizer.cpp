#include "quant/operand_quantizer.hpp"

#include "base/error.hpp"
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
      "Groups of rows of unequal size are no tiles: calibrate the gradients of expert products with absmax or fixed, "
      "without a block rule for their scales.");
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
  if (recipe.law.input_arithmetic && job.x.dtype == DType::bf16 && job.multiplier.data != nullptr) {
    plain.x = arena.allocate(DType::bf16, {job.x.rows(), job.x.cols()});
    store_multiplied(exec, job, plain.x);  // the reference rounds before it quantizes
    plain.multiplier = {};
  }
  quantize_tiles(exec, arena, *recipe.codec, recipe.calibration, tiles_of(plain));
}

}  // namespace kvant::quant
