#include "quant/quantized_weight.hpp"

#include "base/error.hpp"
#include "ops/matmul_site.hpp"
#include "quant/operand_quantizer.hpp"
#include "tensor/arena.hpp"

namespace kvant::quant {

QuantizedWeight::QuantizedWeight(const MatmulSite& site, std::shared_ptr<const Recipe> recipe)
    : site_(site), recipe_(std::move(recipe)) {}

Shape QuantizedWeight::shape() const {
  return site_.groups > 0 ? Shape{site_.groups, site_.k, site_.n} : Shape{site_.k, site_.n};
}

TensorView QuantizedWeight::master() const { return site_.weight.value->reshaped(shape()); }
TensorView QuantizedWeight::gradient() const { return site_.weight.gradient->reshaped(shape()); }

bool QuantizedWeight::packs(bool transposed) const {
  const OperandRecipe& other = transposed ? recipe_->grad_input : recipe_->act;
  return recipe_->weight.codec->storage() == DType::i8 && other.codec->storage() == DType::i8;
}

void QuantizedWeight::allocate(StepContext& ctx, bool for_backward) {
  const OperandRecipe& weight = recipe_->weight;
  const auto room = [&](PackedOperand& packed, bool transposed) {
    if (!packs(transposed) || packed.data != nullptr) return;
    packed.bytes = packed_bytes(DType::i8, shape(), transposed);
    packed.data = ctx.state.allocate_bytes(packed.bytes);
  };
  room(forward_, false);
  if (for_backward) room(backward_, true);
  if (scale_.data != nullptr) return;
  const Shape scales = weight.granularity == Granularity::per_tensor          ? Shape{1}
                       : weight.granularity == Granularity::per_expert_column ? Shape{site_.groups, site_.n}
                                                                              : Shape{site_.n};
  scale_ = ctx.state.allocate(DType::f32, scales);
  if (weight.calibration.measured && weight.calibration.clips()) clip_ = ctx.state.allocate(DType::f32, scales);
  if (keeps_codes()) codes_ = ctx.state.allocate(weight.codec->storage(), shape());
}

void QuantizedWeight::refresh(StepContext& ctx, bool for_backward) {
  const uint64_t now = *site_.weight.epoch;
  const bool pack_backward = for_backward && packs(true) && backward_epoch_ != now;
  if (epoch_ == now && !pack_backward) return;
  allocate(ctx, for_backward);
  ArenaScope workspace(ctx.arena);
  const OperandRecipe& weight = recipe_->weight;
  const TensorView codes = keeps_codes() ? codes_ : ctx.arena.allocate(weight.codec->storage(), shape());
  QuantizeJob job;
  job.x = master().reshaped({std::max<int64_t>(1, site_.groups) * site_.k, site_.n});
  job.codes = codes.reshaped(job.x.shape);
  job.scale = scale_;
  job.clip = clip_;
  job.scale_along = weight.granularity == Granularity::per_tensor ? Along::tensor : Along::column;
  if (weight.granularity == Granularity::per_expert_column) job.uniform_group = site_.k;
  job.law = weight.law;
  if (!weight.calibration.measured)
    job.fixed_scale = weight.calibration.high / weight.law.bound;
  else
    job.magnitudes = ctx.arena.allocate(DType::i32, {scale_.numel()});
  quantize_operand(ctx.exec, ctx.arena, weight, job);
  if (packs(false)) pack(ctx.exec, codes, false, forward_);
  if (for_backward && packs(true)) {
    pack(ctx.exec, codes, true, backward_);
    backward_epoch_ = now;
  }
  epoch_ = now;
}

ScaledOperand QuantizedWeight::operand(StepContext& ctx, bool transposed) const {
  ScaledOperand rhs;
  rhs.trans = transposed;
  if (!transposed) rhs.scale = scale_;
  if (packs(transposed)) {
    rhs.codes = make_view(nullptr, DType::i8, shape(), scale_.space);
    rhs.packed = transposed ? &backward_ : &forward_;
  } else if (recipe_->weight.codec->readable_by_gemm()) {
    rhs.codes = codes_;
  } else {
    rhs.codes = ctx.arena.allocate(DType::f32, shape());
    recipe_->weight.codec->decode(ctx.exec, codes_, rhs.codes);
  }
  return rhs;
}

}  // namespace kvant::quant
