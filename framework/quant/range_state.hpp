// RangeState: the range of one operand of one site from the steps before (delayed scaling). It belongs to the op, is no
// parameter, and is recorded once for each optimizer step: micro-batches raise one maximum, evaluation and the replay of
// recompute use the range in force and record nothing.
#pragma once

#include "kernels/range_history.hpp"
#include "ops/context.hpp"
#include "quant/recipe.hpp"

namespace kvant::quant {

class RangeState {
 public:
  explicit RangeState(const DelayedScaling& setting) : setting_(setting) {}

  /// range (f32 [1]) = what is in force now for a tensor whose largest magnitude (i32 [1], bits) is given: NaN where that is
  /// not finite. Records the magnitude in a training pass. Memory is ctx.state's, asked for once.
  void use(StepContext& ctx, const TensorView& magnitude, const TensorView& range);

  const RangeHistory& history() const { return history_; }

 private:
  void end_step(const Exec& exec);

  DelayedScaling setting_;
  RangeHistory history_;
  int64_t finished_ = 0;     ///< steps in the ring, ever
  int64_t step_ = -1;        ///< whose maximum is being observed
  bool pending_ = false;     ///< something was observed that is not in the ring yet
};

}  // namespace kvant::quant
