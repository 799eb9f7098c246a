#include "quant/quantized_matmul.hpp"

#include "base/error.hpp"
#include "kernels/group_padding.hpp"
#include "kernels/hadamard.hpp"
#include "kernels/tile_values.hpp"
#include "ops/matmul_site.hpp"
#include "quant/operand_quantizer.hpp"
#include "quant/product.hpp"
#include "quant/quantized_weight.hpp"
#include "quant/shared_noise.hpp"
#include "quant/transform.hpp"
#include "tensor/arena.hpp"

#include <numeric>
#include <optional>

namespace kvant::quant {
namespace {

/// [R,k] of a tensor whose leading axes are rows.
TensorView as_matrix(const TensorView& x) { return x.shape.rank == 2 ? x : x.reshaped({x.rows(), x.cols()}); }

std::optional<RangeState> state_of(const OperandRecipe& recipe) {
  return has_state(recipe) ? std::optional<RangeState>(RangeState(recipe)) : std::nullopt;
}
RangeState* pointer(std::optional<RangeState>& state) { return state ? &*state : nullptr; }

class QuantizedMatmul final : public MatmulOp {
 public:
  QuantizedMatmul(const MatmulSite& site, std::shared_ptr<const Recipe> recipe, uint32_t act_key)
      : site_(site),
        recipe_(std::move(recipe)),
        act_key_(act_key),
        weight_(site, recipe_),
        act_state_(state_of(recipe_->act)),
        input_state_(state_of(recipe_->grad_input)),
        weight_state_(state_of(recipe_->grad_weight)),
        input_noise_(stream_of("gradient for dx " + site.numbered_path() + " " + site.op)),
        weight_noise_(recipe_->grad_weight.noise_axes ? input_noise_ : stream_of("gradient for dw " + site.numbered_path() + " " + site.op)) {
    for (const Arm arm : {Arm::forward, Arm::dgrad, Arm::wgrad}) product_[index(arm)] = product_of(*recipe_, arm, site.groups > 0);
  }

  DType arithmetic(Arm arm) const override {
    return product(arm) == Product::integers || product(arm) == Product::integer_blocks ? DType::i8 : DType::f32;
  }

  void prepare(StepContext& ctx, Operand& x, const Groups&) override {
    const OperandRecipe& act = recipe_->act;
    if (!act.quantized() || x.find(act_key_) != nullptr) return;
    const TensorView matrix = as_matrix(x.tensor);
    const QuantizedMatrix q = allocate_quantized(ctx.arena, act, matrix.shape, 1);
    Payload& payload = x.add(act_key_);
    payload.codes = q.codes;
    payload.scale = q.scale;
    payload.zero_point = q.zero_point;
    payload.low = q.low;
    payload.high = q.high;
    ArenaScope workspace(ctx.arena);
    QuantizeJob job;
    job.x = transform(ctx, recipe_->forward, site_, Arm::forward, matrix, 1);
    quantize_matrix(ctx, act, job, 1, pointer(act_state_), q);
    watch_operand(ctx, site_, "act", act, job, q);
  }

  void forward(StepContext& ctx, const Operand& x, const Groups& groups, const TensorView& y, Write mode) override {
    weight_.refresh(ctx, ctx.phase != Phase::eval);
    ArenaScope workspace(ctx.arena);
    multiply(ctx, product(Arm::forward), forward_activation(ctx, x), weight_.forward(), groups.offsets, y, mode, recipe_->accumulation);
  }

  void backward(StepContext& ctx, const Operand& x, const Groups& groups, const TensorView& dy, const TensorView& dx, Write dx_mode) override {
    weight_.refresh(ctx, true);
    ArenaScope workspace(ctx.arena);
    const TensorView gradient = as_matrix(dy);
    // Where both arms round the same matrix to one type by row and by column, one pass over it makes both.
    if (!dx.empty() && as_pair(gradient)) {
      QuantizedMatrix by_row, by_column;
      quantize_pair(ctx, x, groups, gradient, by_row, by_column);
      input_gradient(ctx, x, groups, coded(recipe_->grad_input, by_row, 1), dx, dx_mode);
      const Side act = recipe_->act_residual == Residual::codes ? activation(x, 0) : plain(as_matrix(x.tensor), 0);
      store_weight_gradient(ctx, act, coded(recipe_->grad_weight, by_column, 0), groups.offsets);
      return;
    }
    if (!dx.empty()) {
      ArenaScope arm(ctx.arena);
      input_gradient(ctx, x, groups, gradient_for_input(ctx, groups, gradient), dx, dx_mode);
    }
    weight_gradient(ctx, x, groups, gradient);
  }

 private:
  static std::size_t index(Arm arm) { return static_cast<std::size_t>(arm); }
  Product product(Arm arm) const { return product_[index(arm)]; }

  static Side coded(const OperandRecipe& recipe, const QuantizedMatrix& q, int contracted) {
    Side side;
    side.quantized = q;
    side.recipe = &recipe;
    side.contracted = contracted;
    return side;
  }
  static Side plain(const TensorView& x, int contracted) {
    Side side;
    side.plain = x;
    side.contracted = contracted;
    return side;
  }

  // ---- the activation ----

  QuantizedMatrix payload_of(const Operand& x) const {
    const Payload* payload = x.find(act_key_);
    require(payload != nullptr, "The site {} {} was given an operand that was not prepared for it.", site_.path, site_.op);
    QuantizedMatrix q = {payload->codes, {}, payload->scale, payload->zero_point, payload->low, payload->high};
    const bool whole = q.scale.numel() == 1 && !recipe_->act.tiled();
    q.tile = whole ? TileShape{std::max<int64_t>(1, q.codes.shape[0]), std::max<int64_t>(1, q.codes.shape[1]), 1, 1}
                   : tile_of(recipe_->act, q.codes.shape, 1);
    return q;
  }

  /// The gradient of w takes the scale of x before it is quantized; dw then multiplies with the bare codes. Not where x has one
  /// scale from a history: the gradient's own history would move with it.
  bool folds_act_scale() const {
    const OperandRecipe& act = recipe_->act;
    return recipe_->act_residual == Residual::codes && act.quantized() && recipe_->grad_weight.quantized() && !act.tiled() && !act.calibration.zero_point &&
           act.scaling != Scaling::delayed;
  }

  /// A plain activation is transformed here, codes were made of a transformed one.
  Side forward_activation(StepContext& ctx, const Operand& x) const {
    if (recipe_->act.quantized()) return activation(x, 1);
    return plain(transform(ctx, recipe_->forward, site_, Arm::forward, as_matrix(x.tensor), 1), 1);
  }

  /// Contracted along axis 1: the left side of the forward product. Along axis 0: that of dw, where it reads forward codes.
  Side activation(const Operand& x, int contracted) const {
    if (!recipe_->act.quantized()) return plain(as_matrix(x.tensor), contracted);
    Side side = coded(recipe_->act, payload_of(x), contracted);
    side.bare = contracted == 0 && folds_act_scale();
    return side;
  }

  // ---- gradients ----

  /// Two streams, one for each arm: they round different tensors. In the reference's arithmetic both have the same noise.
  static NoiseJob noise_of(StepContext& ctx, const OperandRecipe& recipe, const Groups& groups, int64_t rows, uint64_t purpose) {
    NoiseJob noise;
    noise.rounding = recipe.rounding;
    noise.seed = ctx.seed;
    noise.stream = noise_stream(purpose, static_cast<uint64_t>(ctx.step), static_cast<uint64_t>(ctx.micro_batch));
    noise.row_ids = groups.row_ids;
    if (recipe.noise_axes) share_noise(ctx, *recipe.noise_axes, rows, noise);
    return noise;
  }

  /// The gradient, with the scale of w where dgrad reads its bare codes.
  QuantizeJob source_for_input(StepContext& ctx, const Groups& groups, const TensorView& dy) const {
    QuantizeJob job;
    job.x = dy;
    job.noise = noise_of(ctx, recipe_->grad_input, groups, dy.rows(), input_noise_);
    if (!weight_.folds_scale()) return job;
    const TensorView& scale = weight_.quantized().scale;
    job.multiplier = scale;
    job.multiplier_along = scale.numel() == 1 ? Along::tensor : Along::column;
    if (recipe_->weight.granularity == Granularity::per_expert_column && scale.numel() != 1) job.offsets = groups.offsets;
    return job;
  }

  /// The gradient, with the scale of x where dw reads its bare codes.
  QuantizeJob source_for_weight(StepContext& ctx, const Operand& x, const Groups& groups, const TensorView& dy) const {
    QuantizeJob job;
    job.x = dy;
    job.noise = noise_of(ctx, recipe_->grad_weight, groups, dy.rows(), weight_noise_);
    if (recipe_->grad_weight.granularity == Granularity::per_expert_column) job.offsets = groups.offsets;
    if (!folds_act_scale()) return job;
    const TensorView& scale = x.find(act_key_)->scale;
    job.multiplier = scale;
    job.multiplier_along = scale.numel() == dy.rows() ? Along::row : Along::tensor;
    return job;
  }

  Side gradient_for_input(StepContext& ctx, const Groups& groups, const TensorView& dy) {
    const OperandRecipe& recipe = recipe_->grad_input;
    const TensorView source = transform(ctx, recipe_->dgrad, site_, Arm::dgrad, dy, 1);
    if (!recipe.quantized()) return plain(source, 1);
    const QuantizedMatrix q = allocate_quantized(ctx.arena, recipe, source.shape, 1);
    const QuantizeJob job = source_for_input(ctx, groups, source);
    quantize_matrix(ctx, recipe, job, 1, pointer(input_state_), q);
    watch_operand(ctx, site_, "grad_input", recipe, job, q);
    return coded(recipe, q, 1);
  }

  /// Both jobs are of rows and columns, of one codec, without search or transform, and the residuals are forward codes.
  bool as_pair(const TensorView& dy) const {
    const OperandRecipe &a = recipe_->grad_input, &b = recipe_->grad_weight;
    return a.codec != nullptr && a.codec == b.codec && is_matrix_job(a, pointer_of(input_state_)) && is_matrix_job(b, pointer_of(weight_state_)) &&
           !goes_by_tiles(a, dy.dtype) && !goes_by_tiles(b, dy.dtype) && recipe_->dgrad == Transform::none && recipe_->wgrad == Transform::none &&
           recipe_->act_residual != Residual::requantized;
  }
  static const RangeState* pointer_of(const std::optional<RangeState>& state) { return state ? &*state : nullptr; }

  QuantizedMatrix ragged(StepContext& ctx, const OperandRecipe& recipe, const Shape& matrix) const {
    if (recipe.granularity != Granularity::per_expert_column || recipe.contracted.given() || !recipe.calibration.measured)
      return allocate_quantized(ctx.arena, recipe, matrix, 0);
    QuantizedMatrix q;  // one scale for each column of each expert, however many rows it has
    q.codes = ctx.arena.allocate(recipe.codec->storage(), matrix);
    q.scale = ctx.arena.allocate(DType::f32, {site_.groups, matrix[1]});
    return q;
  }

  void quantize_pair(StepContext& ctx, const Operand& x, const Groups& groups, const TensorView& dy, QuantizedMatrix& by_row, QuantizedMatrix& by_column) {
    by_row = allocate_quantized(ctx.arena, recipe_->grad_input, dy.shape, 1);
    by_column = ragged(ctx, recipe_->grad_weight, dy.shape);
    ArenaScope workspace(ctx.arena);
    const QuantizeJob input = source_for_input(ctx, groups, dy), weight = source_for_weight(ctx, x, groups, dy);
    recipe_->grad_input.codec->quantize_pair(ctx.exec, matrix_job(ctx.arena, recipe_->grad_input, input, 1, by_row),
                                             matrix_job(ctx.arena, recipe_->grad_weight, weight, 0, by_column));
    watch_operand(ctx, site_, "grad_input", recipe_->grad_input, input, by_row);
    watch_operand(ctx, site_, "grad_weight", recipe_->grad_weight, weight, by_column);
  }

  // ---- dx ----

  /// The straight-through mask belongs to the dense products; the reference's expert products have none.
  bool masks(const OperandRecipe& recipe) const { return site_.groups == 0 && recipe_->mask_gradients && recipe.quantized() && recipe.calibration.clips(); }

  /// dst (+)= src where the operand was not clipped.
  static void store_masked(StepContext& ctx, const OperandRecipe& recipe, const TensorView& operand, const QuantizedMatrix& q, const TensorView& src,
                           const TensorView& dst, bool accumulate) {
    if (recipe.calibration.measured && recipe.scaling == Scaling::measured) {
      store_where_unclipped(ctx.exec, TileMask{operand, q.tile, q.low, q.high}, src, dst, accumulate);
      return;
    }
    ClipMask mask;
    mask.reference = operand;
    mask.low = recipe.calibration.low;
    mask.high = recipe.calibration.high;
    store_where_unclipped(ctx.exec, mask, src, dst, accumulate);
  }

  void input_gradient(StepContext& ctx, const Operand& x, const Groups& groups, const Side& g, const TensorView& dx, Write mode) {
    const Side w = weight_.backward(ctx);
    if (!masks(recipe_->act)) return multiply(ctx, product(Arm::dgrad), g, w, groups.offsets, dx, mode, recipe_->accumulation);
    const TensorView whole = ctx.arena.allocate(DType::f32, {dx.rows(), dx.cols()});
    multiply(ctx, product(Arm::dgrad), g, w, groups.offsets, whole, Write::overwrite, recipe_->accumulation);
    store_masked(ctx, recipe_->act, as_matrix(x.tensor), payload_of(x), whole, as_matrix(dx), mode == Write::accumulate);
  }

  // ---- dw ----

  /// Groups of rows in multiples of this many, where blocks or a transform lie along them; 1: as they are.
  int64_t row_unit() const {
    if (site_.groups == 0) return 1;
    int64_t unit = recipe_->wgrad == Transform::hadamard16 ? hadamard_length : 1;
    for (const OperandRecipe* o : {&recipe_->grad_weight, &recipe_->act_again})
      if (o->quantized() && o->contracted.size > 0) unit = std::lcm(unit, o->contracted.size);
    return unit;
  }

  struct Rows {
    TensorView x, offsets, row_ids;
    QuantizeJob g;
  };

  /// The rows of each expert begin at multiples of `unit`, filled up with zeros: their values, as nothing else is padded.
  Rows padded(StepContext& ctx, const Operand& x, const Groups& groups, const QuantizeJob& g, int64_t unit) {
    Rows to;
    const int64_t rows = padded_rows(g.x.rows(), site_.groups, unit);
    to.offsets = ctx.arena.allocate(DType::i32, {site_.groups + 1});
    pad_offsets(ctx.exec, groups.offsets, unit, to.offsets);
    const TensorView product = ctx.arena.allocate(DType::f32, {g.x.rows(), g.x.cols()});
    store_multiplied(ctx.exec, g, product);
    to.g = g;
    to.g.multiplier = {};
    to.g.x = ctx.arena.allocate(DType::f32, {rows, g.x.cols()});
    pad_groups(ctx.exec, product, groups.offsets, to.offsets, to.g.x);
    if (g.offsets.data != nullptr) to.g.offsets = to.offsets;
    if (groups.row_ids.data != nullptr) {
      to.g.noise.row_ids = ctx.arena.allocate(DType::i32, {rows});
      pad_groups(ctx.exec, groups.row_ids.reshaped({g.x.rows()}), groups.offsets, to.offsets, to.g.noise.row_ids);
    }
    const Side act = activation(x, 0);
    TensorView values = act.plain;
    if (recipe_->act_residual != Residual::codes) {
      values = as_matrix(x.tensor);
    } else if (act.recipe != nullptr) {
      values = ctx.arena.allocate(DType::f32, {g.x.rows(), site_.k});
      act.bare ? act.recipe->codec->decode(ctx.exec, act.quantized.codes, values) : dequantize_matrix(ctx.exec, *act.recipe, act.quantized, values);
    }
    to.x = ctx.arena.allocate(DType::f32, {rows, site_.k});
    pad_groups(ctx.exec, values, groups.offsets, to.offsets, to.x);
    return to;
  }

  void weight_gradient(StepContext& ctx, const Operand& x, const Groups& groups, const TensorView& dy) {
    QuantizeJob g = source_for_weight(ctx, x, groups, dy);
    TensorView offsets = groups.offsets, original = as_matrix(x.tensor);
    const int64_t unit = row_unit();
    const bool pads = unit > 1 && g.x.numel() > 0;
    if (pads) {
      const Rows rows = padded(ctx, x, groups, g, unit);
      g = rows.g;
      offsets = rows.offsets;
      original = rows.x;
    }
    Side act = recipe_->act_residual == Residual::codes && !pads ? activation(x, 0) : plain(original, 0);
    if (recipe_->act_residual != Residual::codes) act = residual(ctx, original, offsets);
    store_weight_gradient(ctx, act, gradient_for_weight(ctx, g), offsets);
  }

  Side residual(StepContext& ctx, const TensorView& original, const TensorView& offsets) {
    const TensorView x = transform(ctx, recipe_->wgrad, site_, Arm::wgrad, original, 0);
    if (recipe_->act_residual != Residual::requantized) return plain(x, 0);
    const OperandRecipe& recipe = recipe_->act_again;
    const QuantizedMatrix q = ragged(ctx, recipe, x.shape);
    QuantizeJob job;
    job.x = x;
    if (recipe.granularity == Granularity::per_expert_column) job.offsets = offsets;
    quantize_matrix(ctx, recipe, job, 0, nullptr, q);
    return coded(recipe, q, 0);
  }

  Side gradient_for_weight(StepContext& ctx, QuantizeJob g) {
    const OperandRecipe& recipe = recipe_->grad_weight;
    if (recipe_->wgrad != Transform::none) {
      if (g.multiplier.data != nullptr) {
        const TensorView product = ctx.arena.allocate(DType::f32, g.x.shape);
        store_multiplied(ctx.exec, g, product);
        g.x = product;
        g.multiplier = {};
      }
      g.x = transform(ctx, recipe_->wgrad, site_, Arm::wgrad, g.x, 0);
    }
    if (!recipe.quantized()) return plain(g.x, 0);
    const QuantizedMatrix q = ragged(ctx, recipe, g.x.shape);
    quantize_matrix(ctx, recipe, g, 0, pointer(weight_state_), q);
    watch_operand(ctx, site_, "grad_weight", recipe, g, q);
    return coded(recipe, q, 0);
  }

  void store_weight_gradient(StepContext& ctx, const Side& act, const Side& g, const TensorView& offsets) {
    if (!masks(recipe_->weight)) return multiply(ctx, product(Arm::wgrad), act, g, offsets, weight_.gradient(), Write::accumulate, recipe_->accumulation);
    const TensorView whole = ctx.arena.allocate(DType::f32, {site_.k, site_.n});
    multiply(ctx, product(Arm::wgrad), act, g, offsets, whole, Write::overwrite, recipe_->accumulation);
    store_masked(ctx, recipe_->weight, weight_.master(), weight_.quantized(), whole, weight_.gradient(), true);
  }

  const MatmulSite& site_;
  std::shared_ptr<const Recipe> recipe_;
  uint32_t act_key_;
  QuantizedWeight weight_;
  std::optional<RangeState> act_state_, input_state_, weight_state_;
  uint64_t input_noise_, weight_noise_;
  Product product_[3];
};

}  // namespace

std::unique_ptr<MatmulOp> make_quantized_matmul(const MatmulSite& site, std::shared_ptr<const Recipe> recipe, uint32_t act_key) {
  return std::make_unique<QuantizedMatmul>(site, std::move(recipe), act_key);
}

}  // namespace kvant::quant
