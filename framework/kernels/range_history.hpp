// The range of an operand from the maxima of earlier steps (delayed scaling), in execution memory: a ring of maxima, the
// largest magnitude seen in the step that runs, and the range in force.
#pragma once

#include "tensor/tensor.hpp"

#include <cstdint>

namespace kvant {

struct Exec;

struct RangeHistory {
  TensorView ring;      ///< f32 [history]: maxima of finished steps, 0 where there is none yet
  TensorView observed;  ///< i32 [1]: bits of the largest |v| of this step so far
  TensorView range;     ///< f32 [1]
};

/// An empty ring, nothing observed, range = initial.
void clear_history(const Exec& exec, const RangeHistory& history, float initial);

/// observed = max(observed, magnitude): bits of |v| as integers, so that no order changes the result and a NaN stays.
void observe(const Exec& exec, const RangeHistory& history, const TensorView& magnitude);

/// The step is over: its maximum goes into place `slot` of the ring, range = margin · largest of the ring where that is
/// above 0 and finite, else it stays; nothing is observed then. (maxtext-semantics 1.5)
void advance_history(const Exec& exec, const RangeHistory& history, int64_t slot, float margin);

/// to[0] = range, or NaN where the bits of `magnitude` (i32 [1]) are those of no finite number: it must poison what is
/// quantized with it.
void range_in_force(const Exec& exec, const RangeHistory& history, const TensorView& magnitude, const TensorView& to);

/// The mean of all that was measured (act_static_scale): sum and count of means, in execution memory.
struct RunningMean {
  TensorView sums;  ///< f32 [2]: sum of the means, their number
};

/// range (f32 [1]) from the largest magnitudes of rows (i32 [R], bits): their mean joins the running one where `records`, and the range
/// is factor · the running mean, or · the mean of these rows where nothing was recorded yet. NaN, and nothing is recorded, where one of the
/// magnitudes is no finite number. Added in the order of the rows. (qwix-semantics 3, static range)
void running_range(const Exec& exec, const RunningMean& mean, const TensorView& magnitudes, bool records, float factor, const TensorView& range);

}  // namespace kvant
