// The router in double: what kernels/router.hpp is compared with.
#pragma once

#include "kernels/router.hpp"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <numeric>
#include <vector>

namespace kvant::reference {

inline std::vector<double> softmax(const std::vector<double>& z) {
  const double top = *std::max_element(z.begin(), z.end());
  std::vector<double> p(z.size());
  double total = 0.0;
  for (std::size_t i = 0; i < z.size(); ++i) total += p[i] = std::exp(z[i] - top);
  for (double& x : p) x /= total;
  return p;
}

inline std::vector<double> scores(const std::vector<double>& z, ScoreFunction f) {
  if (f == ScoreFunction::softmax) return softmax(z);
  std::vector<double> s = z;
  for (double& x : s) {
    if (f == ScoreFunction::sigmoid) x = 1.0 / (1.0 + std::exp(-x));
    if (f == ScoreFunction::sqrtsoftplus) x = std::sqrt(std::log1p(std::exp(x)));
  }
  return s;
}

/// d(loss) / d(logits) from d(loss) / d(scores).
inline std::vector<double> scores_backward(const std::vector<double>& z, const std::vector<double>& ds,
                                           ScoreFunction f) {
  const std::vector<double> s = scores(z, f);
  std::vector<double> dz = ds;
  double pull = 0.0;
  for (std::size_t i = 0; i < z.size(); ++i) pull += s[i] * ds[i];
  for (std::size_t i = 0; i < z.size(); ++i) {
    if (f == ScoreFunction::softmax) dz[i] = s[i] * (ds[i] - pull);
    if (f == ScoreFunction::sigmoid) dz[i] *= s[i] * (1.0 - s[i]);
    if (f == ScoreFunction::sqrtsoftplus) dz[i] *= 1.0 / (1.0 + std::exp(-z[i])) / (2.0 * s[i]);
  }
  return dz;
}

/// The `keep` first of a stable sort by falling value.
inline std::vector<int> best(const std::vector<double>& value, std::size_t keep) {
  std::vector<int> order(value.size());
  std::iota(order.begin(), order.end(), 0);
  std::stable_sort(order.begin(), order.end(), [&](int a, int b) {
    return value[static_cast<std::size_t>(a)] > value[static_cast<std::size_t>(b)];
  });
  order.resize(keep);
  return order;
}

inline std::vector<int> choose(const RouterConfig& c, std::vector<double> ranked) {
  if (c.groups > 0) {
    const std::size_t size = ranked.size() / static_cast<std::size_t>(c.groups);
    std::vector<double> group(static_cast<std::size_t>(c.groups));
    for (std::size_t g = 0; g < group.size(); ++g) {
      std::vector<double> in(ranked.begin() + static_cast<std::ptrdiff_t>(g * size),
                             ranked.begin() + static_cast<std::ptrdiff_t>((g + 1) * size));
      std::sort(in.rbegin(), in.rend());
      group[g] = in[0] + (size > 1 ? in[1] : 0.0);
    }
    const std::vector<int> kept = best(group, static_cast<std::size_t>(c.topk_groups));
    for (std::size_t e = 0; e < ranked.size(); ++e)
      if (std::find(kept.begin(), kept.end(), static_cast<int>(e / size)) == kept.end()) ranked[e] = -1e300;
  }
  return best(ranked, static_cast<std::size_t>(c.k));
}

inline std::vector<double> weights(const RouterConfig& c, const std::vector<double>& score,
                                   const std::vector<int>& index) {
  std::vector<double> w;
  for (const int e : index) w.push_back(score[static_cast<std::size_t>(e)]);
  if (!c.deepseek) {
    w = softmax(w);
  } else if (c.score == ScoreFunction::sigmoid || c.score == ScoreFunction::sqrtsoftplus) {
    const double total = std::accumulate(w.begin(), w.end(), 1e-20);
    for (double& x : w) x /= total;
  }
  for (double& x : w) x *= c.scaling;
  return w;
}

/// One row: d(loss) / d(logits) with the choice held fixed.
inline std::vector<double> router_backward(const RouterConfig& c, const std::vector<double>& z,
                                           const std::vector<int>& index, const std::vector<double>& dw) {
  const std::vector<double> s = scores(z, c.score);
  const std::vector<double> w = weights(c, s, index);
  std::vector<double> ds(z.size());
  double total = 1e-20, dot = 0.0;
  for (std::size_t k = 0; k < index.size(); ++k) {
    total += s[static_cast<std::size_t>(index[k])];
    dot += w[k] * dw[k];
  }
  for (std::size_t k = 0; k < index.size(); ++k) {
    const auto e = static_cast<std::size_t>(index[k]);
    if (!c.deepseek)
      ds[e] = w[k] * (dw[k] - dot / c.scaling);
    else if (c.score == ScoreFunction::sigmoid || c.score == ScoreFunction::sqrtsoftplus)
      ds[e] = (c.scaling * dw[k] - dot) / total;
    else
      ds[e] = c.scaling * dw[k];
  }
  return scores_backward(z, ds, c.score);
}

}  // namespace kvant::reference
