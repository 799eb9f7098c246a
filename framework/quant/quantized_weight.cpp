#include "quant/quantized_weight.hpp"

#include "base/error.hpp"
#include "kernels/hadamard.hpp"
#include "ops/matmul_site.hpp"
#include "quant/transform.hpp"
#include "tensor/arena.hpp"

#include <algorithm>

namespace kvant::quant {

QuantizedWeight::QuantizedWeight(const MatmulSite& site, std::shared_ptr<const Recipe> recipe) : site_(site), recipe_(std::move(recipe)) {
  if (has_state(recipe_->weight)) state_.emplace(recipe_->weight);
}

Shape QuantizedWeight::shape() const { return site_.groups > 0 ? Shape{site_.groups, site_.k, site_.n} : Shape{site_.k, site_.n}; }
Shape QuantizedWeight::matrix() const { return {std::max<int64_t>(1, site_.groups) * site_.k, site_.n}; }
TensorView QuantizedWeight::master() const { return site_.weight.value->reshaped(shape()); }
TensorView QuantizedWeight::gradient() const { return site_.weight.gradient->reshaped(shape()); }

bool QuantizedWeight::packs(bool transposed) const {
  if (transposed && recipe_->weight_residual != Residual::codes) return false;
  const Product product = product_of(*recipe_, transposed ? Arm::dgrad : Arm::forward, site_.groups > 0);
  return product == Product::integers || product == Product::integer_blocks;
}

int64_t QuantizedWeight::packed_block(bool transposed) const {
  const Arm arm = transposed ? Arm::dgrad : Arm::forward;
  if (product_of(*recipe_, arm, site_.groups > 0) != Product::integer_blocks) return 0;
  const OperandRecipe &left = recipe_->left(arm), &weight = recipe_->weight;
  const int64_t length = transposed ? site_.n : site_.k;
  const int64_t of_weight = transposed && folds_scale() ? length : block_length(weight, transposed ? weight.other : weight.contracted, length);
  const int64_t block = std::min(block_length(left, left.contracted, length), of_weight);
  return block < length ? block : 0;
}

bool QuantizedWeight::keeps_codes() const { return !packs(false) || (recipe_->weight_residual == Residual::codes && !packs(true)); }

bool QuantizedWeight::folds_scale() const {
  const OperandRecipe& w = recipe_->weight;
  return recipe_->weight_residual == Residual::codes && w.quantized() && recipe_->grad_input.quantized() && !w.tiled() && !w.calibration.zero_point &&
         w.scaling != Scaling::delayed;
}

void QuantizedWeight::allocate(StepContext& ctx, bool for_backward) {
  const auto room = [&](PackedOperand& packed, bool transposed) {
    if (!packs(transposed) || packed.data != nullptr) return;
    packed.block = packed_block(transposed);
    packed.bytes = packed_bytes(DType::i8, shape(), transposed, packed.block);
    packed.data = ctx.state.allocate_bytes(packed.bytes);
  };
  room(forward_, false);
  if (for_backward) room(backward_, true);
  if (q_.scale.data == nullptr) q_ = allocate_quantized(ctx.state, recipe_->weight, matrix(), 0, site_.k, keeps_codes());
  if (for_backward && quantized_again() && again_.scale.data == nullptr)
    again_ = allocate_quantized(ctx.state, recipe_->weight_again, matrix(), 1);
}

void QuantizedWeight::quantize(StepContext& ctx, const QuantizedMatrix& to) {
  QuantizeJob job;
  job.x = transform(ctx, recipe_->forward, site_, Arm::forward, master().reshaped(matrix()), 0);
  if (recipe_->weight.granularity == Granularity::per_expert_column) job.uniform_group = site_.k;
  quantize_matrix(ctx, recipe_->weight, job, 0, state_ ? &*state_ : nullptr, to);
  watch_operand(ctx, site_, "weight", recipe_->weight, job, to);
}

TensorView QuantizedWeight::transformed(StepContext& ctx) const {
  return transform(ctx, recipe_->dgrad, site_, Arm::dgrad, master().reshaped(matrix()), 1);
}

void QuantizedWeight::quantize_again(StepContext& ctx) {
  QuantizeJob job;
  job.x = transformed(ctx);
  quantize_matrix(ctx, recipe_->weight_again, job, 1, nullptr, again_);
}

void QuantizedWeight::refresh(StepContext& ctx, bool for_backward) {
  if (!recipe_->weight.quantized()) return;
  const uint64_t now = *site_.weight.epoch;
  const bool records = state_ && ctx.phase == Phase::train && recorded_epoch_ != now;
  const bool backward = for_backward && (packs(true) || quantized_again()) && backward_epoch_ != now;
  if (epoch_ == now && !backward && !records) return;
  allocate(ctx, for_backward);
  ArenaScope workspace(ctx.arena);
  QuantizedMatrix to = q_;
  if (!keeps_codes()) to.codes = ctx.arena.allocate(recipe_->weight.codec->storage(), matrix());
  const bool codes_are_there = epoch_ == now && !records && keeps_codes();
  if (!codes_are_there) quantize(ctx, to);
  if (records) recorded_epoch_ = now;
  if (packs(false) && (epoch_ != now || records)) pack(ctx.exec, to.codes.reshaped(shape()), false, forward_);
  if (for_backward) {
    if (packs(true)) pack(ctx.exec, to.codes.reshaped(shape()), true, backward_);
    if (quantized_again()) quantize_again(ctx);
    backward_epoch_ = now;
  }
  epoch_ = now;
}

Side QuantizedWeight::forward() const {
  Side side;
  side.contracted = 0;
  side.groups = site_.groups;
  if (!recipe_->weight.quantized()) {
    side.plain = master().reshaped(matrix());
    return side;
  }
  side.recipe = &recipe_->weight;
  side.quantized = q_;
  if (packs(false)) {
    side.packed = &forward_;
    if (side.quantized.codes.data == nullptr) side.quantized.codes = make_view(nullptr, DType::i8, matrix(), q_.scale.space);
  }
  return side;
}

Side QuantizedWeight::backward(StepContext& ctx) const {
  Side side = forward();
  side.contracted = 1;
  side.packed = nullptr;
  side.bare = folds_scale();
  if (recipe_->weight_residual == Residual::codes) {
    if (packs(true)) {
      side.packed = &backward_;
      side.quantized.codes = make_view(nullptr, DType::i8, matrix(), q_.scale.space);
    }
    return side;
  }
  side.recipe = nullptr;
  side.bare = false;
  if (quantized_again()) {
    side.recipe = &recipe_->weight_again;
    side.quantized = again_;
  } else {
    side.plain = transformed(ctx);
  }
  return side;
}

}  // namespace kvant::quant
