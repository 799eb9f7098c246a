// RMSNorm in double: what kernels/rmsnorm.hpp is compared with.
#pragma once

#include <cmath>
#include <cstddef>
#include <vector>

namespace kvant::reference {

struct RmsNorm {
  std::vector<double> y, rstd;
};

inline RmsNorm rmsnorm(const std::vector<double>& x, const std::vector<double>& scale, double eps) {
  const std::size_t d = scale.size(), rows = x.size() / d;
  RmsNorm r{std::vector<double>(x.size()), std::vector<double>(rows)};
  for (std::size_t t = 0; t < rows; ++t) {
    double squares = 0.0;
    for (std::size_t i = 0; i < d; ++i) squares += x[t * d + i] * x[t * d + i];
    r.rstd[t] = 1.0 / std::sqrt(squares / static_cast<double>(d) + eps);
    for (std::size_t i = 0; i < d; ++i) r.y[t * d + i] = x[t * d + i] * r.rstd[t] * scale[i];
  }
  return r;
}

struct RmsNormGradient {
  std::vector<double> dx, dscale;
};

inline RmsNormGradient rmsnorm_backward(const std::vector<double>& x, const std::vector<double>& scale, double eps,
                                        const std::vector<double>& dy) {
  const std::size_t d = scale.size(), rows = x.size() / d;
  const RmsNorm forward = rmsnorm(x, scale, eps);
  RmsNormGradient g{std::vector<double>(x.size()), std::vector<double>(d)};
  for (std::size_t t = 0; t < rows; ++t) {
    const double r = forward.rstd[t];
    double mean = 0.0;
    for (std::size_t i = 0; i < d; ++i) mean += dy[t * d + i] * scale[i] * x[t * d + i] * r / static_cast<double>(d);
    for (std::size_t i = 0; i < d; ++i) {
      const double x_hat = x[t * d + i] * r;
      g.dx[t * d + i] = r * (dy[t * d + i] * scale[i] - x_hat * mean);
      g.dscale[i] += dy[t * d + i] * x_hat;
    }
  }
  return g;
}

}  // namespace kvant::reference
