#include "quant/range_state.hpp"

#include "base/kokkos.hpp"
#include "kernels/elementwise.hpp"
#include "tensor/arena.hpp"

namespace kvant::quant {

RangeState::RangeState(const OperandRecipe& recipe) : scaling_(recipe.scaling), setting_(recipe.delayed), factor_(recipe.calibration.factor) {
  if (setting_.initial == 0.0) setting_.initial = static_cast<double>(recipe.law.bound);
}

void RangeState::use(StepContext& ctx, const QuantizeJob& source, const TensorView& range) {
  ArenaScope workspace(ctx.arena);
  if (scaling_ == Scaling::delayed) {
    const TensorView magnitude = ctx.arena.allocate(DType::i32, {1});
    largest_magnitude(ctx.exec, source, magnitude);
    return use_history(ctx, magnitude, range);
  }
  if (mean_.sums.data == nullptr) {
    mean_.sums = ctx.state.allocate(DType::f32, {2});
    fill(ctx.exec, mean_.sums, 0.0f);
  }
  const TensorView magnitudes = ctx.arena.allocate(DType::i32, {source.x.rows()});
  row_magnitudes(ctx.exec, source, magnitudes);
  running_range(ctx.exec, mean_, magnitudes, ctx.phase == Phase::train, factor_, range);
}

void RangeState::end_step(const Exec& exec) {
  advance_history(exec, history_, finished_ % setting_.history, static_cast<float>(setting_.margin));
  ++finished_;
  pending_ = false;
}

void RangeState::use_history(StepContext& ctx, const TensorView& magnitude, const TensorView& range) {
  if (history_.range.data == nullptr) {
    history_.ring = ctx.state.allocate(DType::f32, {setting_.history});
    history_.observed = ctx.state.allocate(DType::i32, {1});
    history_.range = ctx.state.allocate(DType::f32, {1});
    clear_history(ctx.exec, history_, static_cast<float>(setting_.initial));
  }
  // A step is known to be over when the next one begins, or an evaluation does.
  if (pending_ && (ctx.phase == Phase::eval || (ctx.phase == Phase::train && ctx.step != step_))) end_step(ctx.exec);
  range_in_force(ctx.exec, history_, magnitude, range);
  if (ctx.phase != Phase::train) return;
  step_ = ctx.step;
  pending_ = true;
  observe(ctx.exec, history_, magnitude);
}

}  // namespace kvant::quant
