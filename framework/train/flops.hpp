// Operations of a training step by MaxText's formulas (maxtext-semantics section 6): forward times three, attention counted causal,
// recompute not counted, neither MTP's 2E -> E projection nor its logits.
#pragma once

#include "config/settings.hpp"

namespace kvant::train {

struct Flops {
  double weights = 0, attention = 0;  ///< operations, not TFLOP
  double total() const { return weights + attention; }
};

/// Of `sequences` sequences of max_target_length tokens.
Flops training_flops(const config::ModelSettings& model, double sequences);

}  // namespace kvant::train
