// Metrics of quantized operands by site: largest value, largest scale, share of values that saturated, share of values other than 0 that
// became 0. docs/metrics.md has the names.
#pragma once

#include "ops/context.hpp"
#include "train/metrics.hpp"

#include "kernels/operand_facts.hpp"

#include <string>
#include <utility>
#include <vector>

namespace kvant::train {

class OperandMetrics final : public OperandWatch {
 public:
  void see(const MatmulSite& site, const char* operand, const OperandFacts& facts) override;

  /// Adds what was seen since the last call, the micro-batches of a step together, to a row. An operand of which more than half
  /// became 0 is named in the log, once.
  void take(Row& row);

 private:
  std::vector<std::pair<std::string, OperandFacts>> seen_;  ///< in the order of the first step
};

}  // namespace kvant::train
