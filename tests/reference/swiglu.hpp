// SwiGLU in double: what kernels/swiglu.hpp is compared with.
#pragma once

#include <cmath>
#include <cstddef>
#include <vector>

namespace kvant::reference {

inline double sigmoid(double x) { return 1.0 / (1.0 + std::exp(-x)); }

inline std::vector<double> swiglu(const std::vector<double>& a, const std::vector<double>& b) {
  std::vector<double> y(a.size());
  for (std::size_t i = 0; i < a.size(); ++i) y[i] = a[i] * sigmoid(a[i]) * b[i];
  return y;
}

struct SwigluGradient {
  std::vector<double> da, db;
};

inline SwigluGradient swiglu_backward(const std::vector<double>& a, const std::vector<double>& b,
                                      const std::vector<double>& dy) {
  SwigluGradient g{std::vector<double>(a.size()), std::vector<double>(a.size())};
  for (std::size_t i = 0; i < a.size(); ++i) {
    const double s = sigmoid(a[i]);
    g.da[i] = dy[i] * b[i] * s * (1.0 + a[i] * (1.0 - s));
    g.db[i] = dy[i] * a[i] * s;
  }
  return g;
}

}  // namespace kvant::reference
