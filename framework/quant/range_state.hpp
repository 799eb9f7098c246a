// RangeState: the range of one operand of one site from the steps before (delayed scaling) or from all that was measured so far
// (act_static_scale). It belongs to the op, is no parameter, and evaluation and the replay of recompute record nothing. Delayed
// scaling is recorded once for each optimizer step: micro-batches raise one maximum.
#pragma once

#include "kernels/quantize.hpp"
#include "kernels/range_history.hpp"
#include "ops/context.hpp"
#include "quant/recipe.hpp"

namespace kvant::quant {

class RangeState {
 public:
  /// Of a recipe whose scaling is delayed or running_mean.
  explicit RangeState(const OperandRecipe& recipe);

  /// range (f32 [1]) = what is in force for x · multiplier of the source: NaN where that is not finite. Records in a training pass.
  /// Memory is ctx.state's, asked for once; workspace is ctx.arena's.
  void use(StepContext& ctx, const QuantizeJob& source, const TensorView& range);

 private:
  void use_history(StepContext& ctx, const TensorView& magnitude, const TensorView& range);
  void end_step(const Exec& exec);

  Scaling scaling_;
  DelayedScaling setting_;
  float factor_ = 1;
  RangeHistory history_;
  RunningMean mean_;
  int64_t finished_ = 0;     ///< steps in the ring, ever
  int64_t step_ = -1;        ///< whose maximum is being observed
  bool pending_ = false;     ///< something was observed that is not in the ring yet
};

/// False for a recipe that measures or is constant.
inline bool has_state(const OperandRecipe& recipe) {
  return recipe.quantized() && (recipe.scaling == Scaling::delayed || recipe.scaling == Scaling::running_mean);
}

}  // namespace kvant::quant
