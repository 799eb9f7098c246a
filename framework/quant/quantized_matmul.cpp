#include "quant/quantized_matmul.hpp"

#include "base/error.hpp"
#include "kernels/scaled_gemm.hpp"
#include "ops/matmul_site.hpp"
#include "quant/operand_quantizer.hpp"
#include "quant/quantized_weight.hpp"
#include "tensor/arena.hpp"

namespace kvant::quant {
namespace {

/// [R,k] of a tensor whose leading axes are rows.
TensorView as_matrix(const TensorView& x) { return x.shape.rank == 2 ? x : x.reshaped({x.rows(), x.cols()}); }

class QuantizedMatmul final : public MatmulOp {
 public:
  QuantizedMatmul(const MatmulSite& site, std::shared_ptr<const Recipe> recipe, uint32_t act_key)
      : site_(site),
        recipe_(std::move(recipe)),
        act_key_(act_key),
        weight_(site, recipe_),
        input_noise_(stream_of("gradient for dx " + site.numbered_path() + " " + site.op)),
        weight_noise_(stream_of("gradient for dw " + site.numbered_path() + " " + site.op)) {
    for (const OperandRecipe* operand : {&recipe_->act, &recipe_->weight, &recipe_->grad_input, &recipe_->grad_weight})
      require(
          !operand->calibration.zero_point,
          "The site {} {} asks for the calibration \"{}\", which needs a zero point; a product of this kind has none.",
          site.path, site.op, operand->calibration.text);
  }

  DType arithmetic(Arm arm) const override {
    const OperandRecipe& first = arm == Arm::forward ? recipe_->act
                                 : arm == Arm::dgrad ? recipe_->grad_input
                                                     : recipe_->grad_weight;
    const OperandRecipe& second = arm == Arm::wgrad ? recipe_->act : recipe_->weight;
    return integers(first, second) ? DType::i8 : DType::f32;
  }

  void prepare(StepContext& ctx, Operand& x, const Groups&) override {
    if (x.find(act_key_) != nullptr) return;
    const TensorView matrix = as_matrix(x.tensor);
    const OperandRecipe& act = recipe_->act;
    const bool by_row = act.granularity == Granularity::per_row;
    const bool clips = act.calibration.measured && act.calibration.clips();
    const int64_t scales = by_row ? matrix.rows() : 1;
    Payload& payload = x.add(act_key_);
    payload.codes = ctx.arena.allocate(act.codec->storage(), matrix.shape);
    payload.scale =
        ctx.arena.allocate(DType::f32, {clips ? 2 : 1, scales});  // the second row: beyond which a value was clipped
    ArenaScope workspace(ctx.arena);
    QuantizeJob job =
        job_of(ctx, act, matrix, payload.codes, payload.scale.slice_rows(0, 1), by_row ? Along::row : Along::tensor);
    if (clips) job.clip = payload.scale.slice_rows(1, 1).reshaped({scales});
    quantize_operand(ctx.exec, ctx.arena, act, job);
  }

  void forward(StepContext& ctx, const Operand& x, const Groups& groups, const TensorView& y, Write mode) override {
    const Payload& payload = find(x);
    weight_.refresh(ctx, ctx.phase != Phase::eval);
    ArenaScope workspace(ctx.arena);
    const ScaledOperand lhs{readable(ctx, recipe_->act, payload.codes), false,
                            payload.scale.slice_rows(0, 1).reshaped({payload.scale.cols()}), nullptr};
    multiply(ctx, lhs, weight_.operand(ctx, false), groups, y, mode);
  }

  void backward(StepContext& ctx, const Operand& x, const Groups& groups, const TensorView& dy, const TensorView& dx,
                Write dx_mode) override {
    const Payload& payload = find(x);
    weight_.refresh(ctx, true);
    ArenaScope workspace(ctx.arena);
    const Gradients g = quantize_gradient(ctx, payload, groups, as_matrix(dy), !dx.empty());
    if (!dx.empty()) input_gradient(ctx, x, payload, groups, g.input, dx, dx_mode);
    weight_gradient(ctx, payload, groups, g.weight);
  }

 private:
  struct Codes {
    TensorView codes, scale;
  };
  struct Gradients {
    Codes input, weight;
  };

  static bool integers(const OperandRecipe& a, const OperandRecipe& b) {
    return a.codec->storage() == DType::i8 && b.codec->storage() == DType::i8;
  }

  const Payload& find(const Operand& x) const {
    const Payload* payload = x.find(act_key_);
    require(payload != nullptr, "The site {} {} was given an operand that was not prepared for it.", site_.path,
            site_.op);
    return *payload;
  }

  QuantizeJob job_of(StepContext& ctx, const OperandRecipe& recipe, const TensorView& x, const TensorView& codes,
                     const TensorView& scale, Along along) {
    QuantizeJob job;
    job.x = x;
    job.codes = codes;
    job.scale = scale;
    job.scale_along = along;
    job.law = recipe.law;
    if (!recipe.calibration.measured)
      job.fixed_scale = recipe.calibration.high / recipe.law.bound;
    else if (along != Along::row)
      job.magnitudes = ctx.arena.allocate(DType::i32, {scale.numel()});
    return job;
  }

  /// Two streams, one for each arm: they round different tensors.
  static NoiseJob noise_of(const StepContext& ctx, const OperandRecipe& recipe, const Groups& groups, uint64_t purpose) {
    NoiseJob noise;
    noise.rounding = recipe.rounding;
    noise.seed = ctx.seed;
    noise.stream = noise_stream(purpose, static_cast<uint64_t>(ctx.step), static_cast<uint64_t>(ctx.micro_batch));
    noise.row_ids = groups.row_ids;
    return noise;
  }

  /// Codes as the GEMM reads them: as they are, or decoded to f32 in workspace for a format that it does not know.
  static TensorView readable(StepContext& ctx, const OperandRecipe& recipe, const TensorView& codes) {
    if (recipe.codec->readable_by_gemm()) return codes;
    const TensorView values = ctx.arena.allocate(DType::f32, codes.shape);
    recipe.codec->decode(ctx.exec, codes, values);
    return values;
  }

  Gradients quantize_gradient(StepContext& ctx, const Payload& payload, const Groups& groups, const TensorView& dy,
                              bool wants_input) {
    const OperandRecipe &by_row = recipe_->grad_input, &by_column = recipe_->grad_weight;
    const int64_t rows = dy.rows(), n = dy.cols();
    const bool per_expert = by_column.granularity == Granularity::per_expert_column;
    const bool whole_columns = by_column.granularity == Granularity::per_tensor,
               whole_rows = by_row.granularity == Granularity::per_tensor;
    Gradients g;
    g.weight.codes = ctx.arena.allocate(by_column.codec->storage(), {rows, n});
    g.weight.scale = per_expert ? ctx.arena.allocate(DType::f32, {site_.groups, n})
                                : ctx.arena.allocate(DType::f32, {whole_columns ? 1 : n});
    QuantizeJob columns =
        job_of(ctx, by_column, dy, g.weight.codes, g.weight.scale, whole_columns ? Along::tensor : Along::column);
    columns.multiplier = payload.scale.slice_rows(0, 1).reshaped({payload.scale.cols()});
    columns.multiplier_along = recipe_->act.granularity == Granularity::per_row ? Along::row : Along::tensor;
    columns.noise = noise_of(ctx, by_column, groups, weight_noise_);
    if (per_expert) columns.offsets = groups.offsets;
    if (!wants_input) {
      quantize_operand(ctx.exec, ctx.arena, by_column, columns);
      return g;
    }
    g.input.codes = ctx.arena.allocate(by_row.codec->storage(), {rows, n});
    g.input.scale = ctx.arena.allocate(DType::f32, {whole_rows ? 1 : rows});
    QuantizeJob row = job_of(ctx, by_row, dy, g.input.codes, g.input.scale, whole_rows ? Along::tensor : Along::row);
    row.multiplier = weight_.scale();
    row.multiplier_along = recipe_->weight.granularity == Granularity::per_tensor ? Along::tensor : Along::column;
    if (recipe_->weight.granularity == Granularity::per_expert_column) row.offsets = groups.offsets;
    row.noise = noise_of(ctx, by_row, groups, input_noise_);
    const bool tiles = goes_by_tiles(by_row, dy.dtype) || goes_by_tiles(by_column, dy.dtype);
    if (by_row.codec == by_column.codec && !tiles) {
      by_row.codec->quantize_pair(ctx.exec, row, columns);
    } else {
      quantize_operand(ctx.exec, ctx.arena, by_row, row);
      quantize_operand(ctx.exec, ctx.arena, by_column, columns);
    }
    return g;
  }

  void multiply(StepContext& ctx, const ScaledOperand& lhs, const ScaledOperand& rhs, const Groups& groups,
                const TensorView& c, Write mode) {
    if (groups.grouped())
      scaled_grouped_gemm(ctx.exec, lhs, rhs, groups.offsets, c, mode, ctx.arena);
    else
      scaled_gemm(ctx.exec, lhs, rhs, c, mode, ctx.arena);
  }

  /// The straight-through mask belongs to the dense products; the reference's expert products have none.
  bool masks(const OperandRecipe& recipe) const { return site_.groups == 0 && recipe.calibration.clips(); }

  static ClipMask mask_of(const OperandRecipe& recipe, const TensorView& reference, const TensorView& bound,
                          Along along) {
    ClipMask mask;
    mask.reference = reference;
    if (recipe.calibration.measured) {
      mask.bound = bound;
      mask.bound_along = recipe.granularity == Granularity::per_tensor ? Along::tensor : along;
    } else {
      mask.low = recipe.calibration.low;
      mask.high = recipe.calibration.high;
    }
    return mask;
  }

  void input_gradient(StepContext& ctx, const Operand& x, const Payload& payload, const Groups& groups, const Codes& g,
                      const TensorView& dx, Write mode) {
    const ScaledOperand lhs{readable(ctx, recipe_->grad_input, g.codes), false, g.scale, nullptr};
    const ScaledOperand rhs = weight_.operand(ctx, true);
    if (!masks(recipe_->act)) {
      multiply(ctx, lhs, rhs, groups, dx, mode);
      return;
    }
    const TensorView whole = ctx.arena.allocate(DType::f32, {dx.rows(), dx.cols()});
    multiply(ctx, lhs, rhs, groups, whole, Write::overwrite);
    const TensorView bound =
        payload.scale.shape[0] == 2 ? payload.scale.slice_rows(1, 1).reshaped({payload.scale.cols()}) : TensorView{};
    store_where_unclipped(ctx.exec, mask_of(recipe_->act, as_matrix(x.tensor), bound, Along::row), whole, as_matrix(dx),
                          mode == Write::accumulate);
  }

  void weight_gradient(StepContext& ctx, const Payload& payload, const Groups& groups, const Codes& g) {
    const ScaledOperand lhs{readable(ctx, recipe_->act, payload.codes), true, {}, nullptr};
    const ScaledOperand rhs{readable(ctx, recipe_->grad_weight, g.codes), false, g.scale, nullptr};
    if (groups.grouped()) {
      scaled_grouped_gemm_wgrad(ctx.exec, lhs, rhs, groups.offsets, weight_.gradient(), Write::accumulate, ctx.arena);
    } else if (!masks(recipe_->weight)) {
      scaled_gemm(ctx.exec, lhs, rhs, weight_.gradient(), Write::accumulate, ctx.arena);
    } else {
      const TensorView whole = ctx.arena.allocate(DType::f32, {site_.k, site_.n});
      scaled_gemm(ctx.exec, lhs, rhs, whole, Write::overwrite, ctx.arena);
      store_where_unclipped(ctx.exec, mask_of(recipe_->weight, weight_.master(), weight_.clip(), Along::column), whole,
                            weight_.gradient(), true);
    }
  }

  const MatmulSite& site_;
  std::shared_ptr<const Recipe> recipe_;
  uint32_t act_key_;
  QuantizedWeight weight_;
  uint64_t input_noise_, weight_noise_;
};

}  // namespace

std::unique_ptr<MatmulOp> make_quantized_matmul(const MatmulSite& site, std::shared_ptr<const Recipe> recipe,
                                                uint32_t act_key) {
  return std::make_unique<QuantizedMatmul>(site, std::move(recipe), act_key);
}

}  // namespace kvant::quant
