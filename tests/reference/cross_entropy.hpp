// Cross entropy with z-loss in double: what kernels/cross_entropy.hpp is compared with.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <vector>

namespace kvant::reference {

struct CrossEntropy {
  std::vector<double> loss, z_term, lse, dlogits;
  std::vector<int> argmax;
};

/// dlogits is the gradient of grad_scale * sum of loss.
inline CrossEntropy cross_entropy(const std::vector<double>& logits, const std::vector<int>& targets,
                                  const std::vector<double>& mask, double z_loss, double grad_scale) {
  const std::size_t rows = targets.size(), v = logits.size() / rows;
  CrossEntropy r{std::vector<double>(rows), std::vector<double>(rows), std::vector<double>(rows),
                 std::vector<double>(logits.size()), std::vector<int>(rows)};
  for (std::size_t t = 0; t < rows; ++t) {
    const double* l = &logits[t * v];
    const double* top = std::max_element(l, l + v);
    r.argmax[t] = static_cast<int>(top - l);
    double total = 0.0;
    for (std::size_t i = 0; i < v; ++i) total += std::exp(l[i] - *top);
    r.lse[t] = *top + std::log(total);
    const bool in_range = targets[t] >= 0 && static_cast<std::size_t>(targets[t]) < v;
    if (!in_range || mask[t] == 0.0) continue;
    r.z_term[t] = mask[t] * z_loss * r.lse[t] * r.lse[t];
    r.loss[t] = mask[t] * (r.lse[t] - l[targets[t]]) + r.z_term[t];
    for (std::size_t i = 0; i < v; ++i)
      r.dlogits[t * v + i] = mask[t] * grad_scale *
                             (std::exp(l[i] - r.lse[t]) * (1.0 + 2.0 * z_loss * r.lse[t]) -
                              (static_cast<int>(i) == targets[t] ? 1.0 : 0.0));
  }
  return r;
}

}  // namespace kvant::reference
