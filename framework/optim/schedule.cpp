#include "optim/schedule.hpp"

#include <algorithm>
#include <cmath>
#include <numbers>

namespace kvant::optim {
namespace {

/// 1 at s = 0 down to `final` at s = n - 1, along half a cosine.
double cosine(double final_fraction, int64_t s, int64_t n) {
  if (n <= 1) return 1.0;
  const double turn = std::numbers::pi * static_cast<double>(s) / static_cast<double>(n - 1);
  return final_fraction + (1.0 - final_fraction) * 0.5 * (1.0 + std::cos(turn));
}

double linear(double final_fraction, int64_t s, int64_t n) {
  if (n <= 1) return 1.0;
  return 1.0 - (1.0 - final_fraction) * static_cast<double>(s) / static_cast<double>(n - 1);
}

}  // namespace

double learning_rate(const config::OptimizerSettings& o, int64_t steps, int64_t step) {
  const int64_t length = o.learning_rate_schedule_steps < 0 ? steps : o.learning_rate_schedule_steps;
  const auto warmup = static_cast<int64_t>(static_cast<double>(length) * o.warmup_steps_fraction);
  if (step >= length) return 0.0;
  if (step < warmup) return o.learning_rate * static_cast<double>(step) / static_cast<double>(warmup);
  if (o.lr_schedule_type == "constant") return o.learning_rate;
  if (o.lr_schedule_type == "cosine") return o.learning_rate * cosine(o.learning_rate_final_fraction, step - warmup, length - warmup);
  const auto decay = static_cast<int64_t>(static_cast<double>(length) * o.wsd_decay_steps_fraction);
  const int64_t into = step - (length - decay);
  if (into < 0) return o.learning_rate;
  const double f = o.learning_rate_final_fraction;
  return o.learning_rate * (o.wsd_decay_style == "cosine" ? cosine(f, into, decay) : linear(f, into, decay));
}

}  // namespace kvant::optim
