// AdamW in double: what kernels/adamw.hpp is compared with.
#pragma once

#include <cmath>
#include <cstddef>
#include <vector>

namespace kvant::reference {

struct AdamwState {
  std::vector<double> p, m, v;
};

struct AdamwSettings {
  double lr, b1, b2, eps, eps_root, weight_decay;
};

/// Step number t from 1.
inline void adamw(AdamwState& s, const std::vector<double>& g, const AdamwSettings& h, int t, double factor) {
  for (std::size_t i = 0; i < s.p.size(); ++i) {
    const double gradient = factor * g[i];
    s.m[i] = h.b1 * s.m[i] + (1.0 - h.b1) * gradient;
    s.v[i] = h.b2 * s.v[i] + (1.0 - h.b2) * gradient * gradient;
    const double m = s.m[i] / (1.0 - std::pow(h.b1, t)), v = s.v[i] / (1.0 - std::pow(h.b2, t));
    s.p[i] -= h.lr * (m / (std::sqrt(v + h.eps_root) + h.eps) + h.weight_decay * s.p[i]);
  }
}

}  // namespace kvant::reference
