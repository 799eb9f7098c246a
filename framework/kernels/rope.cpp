#include "kernels/rope.hpp"

#include "base/error.hpp"

#include <algorithm>
#include <cmath>
#include <numbers>

namespace kvant {
namespace {

/// Index (a real number) of the frequency that makes `turns` turns within the original context.
double index_of_turns(const RopeConfig& c, double turns) {
  return c.dim * std::log(c.original_max_position / (turns * 2.0 * std::numbers::pi)) / (2.0 * std::log(c.theta));
}

}  // namespace

RopeTable make_rope_table(const RopeConfig& c) {
  if (c.dim < 2 || c.dim % 2 != 0 || c.dim > rope_max_dim)
    refuse("qk_rope_head_dim is {}; it must be even, at least 2 and at most {}.", c.dim, rope_max_dim);
  if (!(c.theta > 1.0)) refuse("rope_max_timescale is {}; it must be larger than 1.", c.theta);
  RopeTable table;
  const int half = c.dim / 2;
  table.frequency.resize(static_cast<std::size_t>(half));
  double low = 0.0, high = 0.0;
  if (c.yarn) {
    if (!(c.factor >= 1.0)) refuse("rope_factor is {}; it must be at least 1.", c.factor);
    if (!(c.original_max_position > 0.0))
      refuse("original_max_position_embeddings is {}; it must be positive.", c.original_max_position);
    if (!(c.beta_slow > 0.0 && c.beta_fast >= c.beta_slow))
      refuse("beta_fast is {} and beta_slow is {}; they must be positive and beta_fast not the smaller.", c.beta_fast,
             c.beta_slow);
    low = index_of_turns(c, c.beta_fast);
    high = index_of_turns(c, c.beta_slow);
    if (c.truncate) {
      low = std::floor(low);
      high = std::ceil(high);
    }
    low = std::max(low, 0.0);
    high = std::min(high, static_cast<double>(c.dim - 1));  // dim - 1, not dim / 2 - 1: as the reference has it
    if (low == high) high += 0.001;
    if (c.attention_scaling) table.attention_scale = static_cast<float>(0.1 * std::log(c.factor) + 1.0);
  }
  for (int i = 0; i < half; ++i) {
    double f = std::pow(c.theta, -2.0 * i / c.dim);
    if (c.yarn) {
      const double ramp = std::clamp((i - low) / (high - low), 0.0, 1.0);
      f = f / c.factor * ramp + f * (1.0 - ramp);
    }
    table.frequency[static_cast<std::size_t>(i)] = static_cast<float>(f);
  }
  return table;
}

}  // namespace kvant
