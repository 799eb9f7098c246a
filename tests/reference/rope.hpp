// Rotary frequencies and the rotation in double: what kernels/rope.hpp and kernels/mla_pack.hpp are compared with.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <numbers>
#include <vector>

namespace kvant::reference {

/// theta^(-2i/d), i < d/2.
inline std::vector<double> rope_frequencies(int d, double theta) {
  std::vector<double> f(static_cast<std::size_t>(d / 2));
  for (int i = 0; i < d / 2; ++i) f[static_cast<std::size_t>(i)] = std::exp(-2.0 * i / d * std::log(theta));
  return f;
}

/// The same after YaRN: between `low` and `high` (given) from plain to divided by factor.
inline std::vector<double> yarn_frequencies(int d, double theta, double factor, double low, double high) {
  std::vector<double> f = rope_frequencies(d, theta);
  for (std::size_t i = 0; i < f.size(); ++i) {
    const double ramp = std::min(1.0, std::max(0.0, (static_cast<double>(i) - low) / (high - low)));
    f[i] = (1.0 - ramp) * f[i] + ramp * f[i] / factor;
  }
  return f;
}

/// One row of d columns, pairs adjacent (interleave) or half a row apart; output [first parts, second parts].
inline std::vector<double> rotate(const std::vector<double>& x, double position, const std::vector<double>& frequency,
                                  double scale, bool interleave) {
  const std::size_t half = frequency.size();
  std::vector<double> y(2 * half);
  for (std::size_t i = 0; i < half; ++i) {
    const double a = interleave ? x[2 * i] : x[i], b = interleave ? x[2 * i + 1] : x[half + i];
    // the angle is that of float32, as in the kernel: at position 100,000 its rounding is visible
    const double angle = static_cast<float>(position) * static_cast<float>(frequency[i]);
    y[i] = (a * std::cos(angle) - b * std::sin(angle)) * scale;
    y[half + i] = (b * std::cos(angle) + a * std::sin(angle)) * scale;
  }
  return y;
}

}  // namespace kvant::reference
