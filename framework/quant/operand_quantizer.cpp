#include "quant/operand_quantizer.hpp"

#include "base/error.hpp"
#include "base/kokkos.hpp"
#include "kernels/tile_values.hpp"
#include "numerics/bf16.hpp"
#include "quant/codec.hpp"
#include "tensor/arena.hpp"

#include <algorithm>

namespace kvant::quant {
namespace search_detail {

KOKKOS_INLINE_FUNCTION float sane_range(float range, float largest, bool reference) {
  if (magnitude_bits(largest) >= infinity_bits)
    return reference && magnitude_bits(range) >= infinity_bits ? range : float_of(0x7fc00000u);
  return reference || (range > 0.0f && largest > 0.0f) ? range : largest;
}

/// What every search would otherwise have to think of (calibrator.hpp). The reference's arithmetic keeps a range of 0,
/// as it comes from squares that underflow.
void tidy(const Exec& exec, const TensorView& ranges, const TensorView& largest, bool reference) {
  float* range = ranges.as<float>();
  const float* magnitude = largest.as<float>();
  Kokkos::parallel_for(
      "kvant::tidy_ranges", Range(exec.space, 0, ranges.numel()),
      KOKKOS_LAMBDA(const long i) { range[i] = sane_range(range[i], magnitude[i], reference); });
}

}  // namespace search_detail

namespace search_detail {

/// x · multiplier in bfloat16: the reference rounds the product before it quantizes it.
void store_product(const Exec& exec, const QuantizeJob& job, const TensorView& product) {
  const auto* x = job.x.as<bf16_t>();
  const float* factors = job.multiplier.as<float>();
  auto* result = product.as<bf16_t>();
  const long cols = product.cols(), stride = job.x.shape.rank == 2 ? job.x.stride[0] : cols;
  const Along along = job.multiplier_along;
  Kokkos::parallel_for(
      "kvant::store_product", Range(exec.space, 0, product.numel()), KOKKOS_LAMBDA(const long i) {
        const long r = i / cols, c = i % cols;
        const float factor = factors[along == Along::row ? r : along == Along::column ? c : 0];
        result[i] = to_bf16(to_float(x[r * stride + c]) * factor);
      });
}

}  // namespace search_detail

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
  search_detail::tidy(exec, ranges, largest, job.law.reference_guard);
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
    search_detail::store_product(exec, job, plain.x);
    plain.multiplier = {};
  }
  quantize_tiles(exec, arena, *recipe.codec, recipe.calibration, tiles_of(plain));
}

}  // namespace kvant::quant
