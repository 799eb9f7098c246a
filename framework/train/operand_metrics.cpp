#include "train/operand_metrics.hpp"

#include "base/log.hpp"
#include "ops/matmul_site.hpp"

#include <algorithm>
#include <cmath>
#include <fmt/format.h>

namespace kvant::train {
namespace {

double share(int64_t part, int64_t of) { return of > 0 ? static_cast<double>(part) / static_cast<double>(of) : 0.0; }

/// The larger one; a NaN stays.
float larger(float a, float b) { return std::isnan(a) || std::isgreaterequal(a, b) ? a : b; }

}  // namespace

void OperandMetrics::see(const MatmulSite& site, const char* operand, const OperandFacts& facts) {
  const std::string name = fmt::format("quant/{}/{}/{}", site.numbered_path(), site.op, operand);
  auto it = std::find_if(seen_.begin(), seen_.end(), [&](const auto& entry) { return entry.first == name; });
  if (it == seen_.end()) it = seen_.insert(seen_.end(), {name, OperandFacts{}});
  OperandFacts& sum = it->second;
  sum.largest = larger(facts.largest, sum.largest);
  sum.scale = larger(facts.scale, sum.scale);
  sum.elements += facts.elements;
  sum.nonzero += facts.nonzero;
  sum.zeroed += facts.zeroed;
  sum.saturated += facts.saturated;
}

void OperandMetrics::take(Row& row) {
  for (auto& [name, facts] : seen_) {
    if (facts.elements == 0) continue;  // a weight whose codes an evaluation has made
    const double zeroed = share(facts.zeroed, facts.nonzero);
    row.emplace_back(name + "/max", facts.largest);
    row.emplace_back(name + "/scale", facts.scale);
    row.emplace_back(name + "/saturated", share(facts.saturated, facts.elements));
    row.emplace_back(name + "/zeroed", zeroed);
    if (zeroed > 0.5)
      log::once(log::Level::warning, fmt::format("{}: more than half of the values other than 0 became code 0: the format has not enough range, or one value "
                                                 "of those that share a scale is far larger than the rest.",
                                                 name));
    facts = OperandFacts{};
  }
}

}  // namespace kvant::train
