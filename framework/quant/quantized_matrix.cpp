#include "quant/quantized_matrix.hpp"

#include "base/error.hpp"
#include "kernels/block_scales.hpp"
#include "kernels/operand_facts.hpp"
#include "quant/operand_quantizer.hpp"
#include "tensor/arena.hpp"

#include <algorithm>

namespace kvant::quant {
namespace {

int64_t length_of(const Tile& tile, int64_t axis) {
  const int64_t length = std::max<int64_t>(1, axis);
  if (tile.size > 0) return tile.size;
  return tile.parts > 1 ? length / tile.parts : length;
}

bool keeps_range(const OperandRecipe& recipe) {
  return has_state(recipe) || (recipe.calibration.measured && recipe.calibration.clips());
}

Along along_of(const OperandRecipe& recipe, int contracted) {
  return recipe.granularity == Granularity::per_tensor ? Along::tensor : contracted == 1 ? Along::row : Along::column;
}

/// Scales of nothing are 1.
void store_no_scales(StepContext& ctx, const OperandRecipe& recipe, const QuantizeJob& source, const QuantizedMatrix& to) {
  QuantizeJob job = source;
  job.codes = to.codes;
  job.scale = to.scale;
  job.scale_along = Along::tensor;
  if (to.scale.numel() != 1) job.scale_along = to.scale.numel() == source.x.rows() ? Along::row : Along::column;
  job.magnitudes = ctx.arena.allocate(DType::i32, {to.scale.numel()});
  recipe.codec->quantize(ctx.exec, job);
}

}  // namespace

TileShape tile_of(const OperandRecipe& recipe, const Shape& matrix, int contracted, int64_t group_rows) {
  const bool whole = recipe.granularity == Granularity::per_tensor;
  const int64_t rows = group_rows > 0 && (recipe.granularity == Granularity::per_expert_column || recipe.contracted.given()) ? group_rows : matrix[0];
  TileShape tile{1, 1, 1, 1};
  const auto c = static_cast<std::size_t>(contracted);
  tile[c] = length_of(recipe.contracted, contracted == 0 ? rows : matrix[1]);
  tile[1 - c] = whole && !recipe.other.given() ? std::max<int64_t>(1, matrix[1 - contracted]) : recipe.other.given() ? length_of(recipe.other, contracted == 1 ? rows : matrix[1]) : 1;
  return tile;
}

int64_t block_length(const OperandRecipe& recipe, const Tile& tile, int64_t length) {
  return !recipe.calibration.measured || has_state(recipe) ? length : std::min(length, length_of(tile, length));
}

QuantizedMatrix allocate_quantized(Arena& arena, const OperandRecipe& recipe, const Shape& matrix, int contracted, int64_t group_rows, bool keeps_codes) {
  QuantizedMatrix q;
  q.tile = tile_of(recipe, matrix, contracted, group_rows);
  const bool one = !recipe.calibration.measured || has_state(recipe);
  if (one) q.tile = {std::max<int64_t>(1, matrix[0]), std::max<int64_t>(1, matrix[1]), 1, 1};
  const bool ragged = recipe.granularity == Granularity::per_expert_column && contracted == 0 && group_rows == 0;
  require(!ragged || one || recipe.contracted.given(), "Scales by expert need the rows of each.");
  const int64_t scales = matrix.numel() == 0 ? (one || recipe.granularity == Granularity::per_tensor ? 1 : matrix[1 - contracted]) : tile_count(matrix, q.tile);
  if (keeps_codes) q.codes = arena.allocate(recipe.codec->storage(), matrix);
  q.scale = arena.allocate(DType::f32, {scales});
  if (keeps_range(recipe) || recipe.calibration.zero_point) q.high = arena.allocate(DType::f32, {scales});
  if (recipe.calibration.zero_point) {
    q.low = arena.allocate(DType::f32, {scales});
    q.zero_point = arena.allocate(DType::i32, {scales});
  }
  return q;
}

bool is_matrix_job(const OperandRecipe& recipe, const RangeState* state) {
  return state == nullptr && !recipe.tiled() && !recipe.calibration.zero_point && !recipe.two_level;
}

QuantizeJob matrix_job(Arena& arena, const OperandRecipe& recipe, QuantizeJob job, int contracted, const QuantizedMatrix& to) {
  job.codes = to.codes;
  job.scale = to.scale;
  job.clip = to.high;
  job.scale_along = to.scale.numel() == 1 && recipe.granularity == Granularity::per_tensor ? Along::tensor : along_of(recipe, contracted);
  job.law = recipe.law;
  if (!recipe.calibration.measured)
    job.fixed_scale = recipe.calibration.high / recipe.law.bound;
  else if (job.scale_along != Along::row)
    job.magnitudes = arena.allocate(DType::i32, {to.scale.numel()});
  return job;
}

void quantize_matrix(StepContext& ctx, const OperandRecipe& recipe, QuantizeJob source, int contracted, RangeState* state, const QuantizedMatrix& to) {
  ArenaScope workspace(ctx.arena);
  if (is_matrix_job(recipe, state)) return quantize_operand(ctx.exec, ctx.arena, recipe, matrix_job(ctx.arena, recipe, source, contracted, to));
  if (source.x.numel() == 0) return store_no_scales(ctx, recipe, source, to);
  TileJob job;
  job.law = recipe.law;
  if (state != nullptr) state->use(ctx, source, to.high);
  if (recipe.two_level) {
    const TensorView magnitude = ctx.arena.allocate(DType::i32, {1});
    largest_magnitude(ctx.exec, source, magnitude);
    job.outer = ctx.arena.allocate(DType::f32, {1});
    outer_scale(ctx.exec, magnitude, recipe.law.bound, job.outer);
  }
  const bool grouped_multiplier = source.multiplier.data != nullptr && (source.offsets.data != nullptr || source.uniform_group > 0);
  if (grouped_multiplier) {  // tiles know no groups
    const TensorView product = ctx.arena.allocate(DType::f32, {source.x.rows(), source.x.cols()});
    store_multiplied(ctx.exec, source, product);
    source.x = product;
    source.multiplier = {};
  }
  job.x = source.x;
  job.tile = to.tile;
  job.multiplier = source.multiplier;
  job.multiplier_along = source.multiplier_along;
  job.codes = to.codes;
  job.scale = to.scale;
  job.zero_point = to.zero_point;
  job.low = to.low;
  job.high = to.high;
  job.noise = source.noise;
  if (state == nullptr) return quantize_tiles(ctx.exec, ctx.arena, *recipe.codec, recipe.calibration, job);
  job.statistic = Statistic::given;
  job.workspace = ctx.arena.allocate(DType::i32, {tile_workspace(job)});
  recipe.codec->quantize_tiles(ctx.exec, job);
}

void dequantize_matrix(const Exec& exec, const OperandRecipe& recipe, const QuantizedMatrix& q, const TensorView& values) {
  recipe.codec->dequantize_tiles(exec, {q.codes, q.tile, q.scale, q.zero_point, values, false});
}

void watch_operand(StepContext& ctx, const MatmulSite& site, const char* operand, const OperandRecipe& recipe, const QuantizeJob& source,
                   const QuantizedMatrix& q) {
  if (ctx.watch == nullptr || ctx.phase == Phase::replay || source.x.numel() == 0) return;
  ArenaScope workspace(ctx.arena);
  const Shape shape{source.x.rows(), source.x.cols()};
  OperandFactsJob job;
  job.values = ctx.arena.allocate(DType::f32, shape);
  job.decoded = ctx.arena.allocate(DType::f32, shape);
  store_multiplied(ctx.exec, source, job.values);
  recipe.codec->decode(ctx.exec, q.codes, job.decoded);
  job.scale = q.scale;
  job.zero_point = q.zero_point;
  job.tile = q.tile;
  if (q.scale.shape.rank == 2) job.offsets = source.offsets;
  job.largest_code = recipe.codec->bound(false);
  job.workspace = ctx.arena.allocate(DType::i32, {5});
  ctx.watch->see(site, operand, operand_facts(ctx.exec, job));
}

}  // namespace kvant::quant
