// The candidate range with the smallest squared error, in plain loops: the twin of
// framework/kernels/clipping_search_kernel.hpp.
#pragma once

#include <cmath>
#include <vector>

namespace kvant::reference {

/// Squared error of values rounded to s·(codes of F), s = range / bound, clamped to ±bound.
template <class F>
double squared_error(const std::vector<double>& values, double range, double bound) {
  const auto s = static_cast<double>(static_cast<float>(range / bound));
  double sum = 0;
  for (const double v : values) {
    const double ratio = std::fmin(std::fmax(v / s, -bound), bound);
    const double error = static_cast<double>(F::decode(F::encode(static_cast<float>(ratio)))) * s - v;
    sum += error * error;
  }
  return sum;
}

inline double candidate_range(double largest, int k, int candidates, double lowest) {
  return largest * (1.0 - k * (1.0 - lowest) / (candidates - 1));
}

}  // namespace kvant::reference
