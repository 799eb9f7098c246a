// The load-balance loss in double: what kernels/load_balance.hpp is compared with.
#pragma once

#include "reference/router.hpp"

namespace kvant::reference {

/// score [B*S,X], index [B*S,K] -> density [B,X].
inline std::vector<double> density(const std::vector<int>& index, std::size_t batch, std::size_t experts) {
  std::vector<double> d(batch * experts);
  const std::size_t per = index.size() / batch;
  for (std::size_t i = 0; i < index.size(); ++i)
    d[i / per * experts + static_cast<std::size_t>(index[i])] += 1.0 / static_cast<double>(per);
  return d;
}

inline double load_balance(const std::vector<double>& score, const std::vector<double>& density, std::size_t batch,
                           std::size_t experts, double lambda) {
  const std::size_t tokens = score.size() / experts, sequence = tokens / batch;
  double mean = 0.0;  // over b and e
  for (std::size_t t = 0; t < tokens; ++t) {
    const auto p = softmax({score.begin() + static_cast<std::ptrdiff_t>(t * experts),
                            score.begin() + static_cast<std::ptrdiff_t>((t + 1) * experts)});
    for (std::size_t e = 0; e < experts; ++e)
      mean += p[e] / static_cast<double>(sequence) * density[t / sequence * experts + e] /
              static_cast<double>(batch * experts);
  }
  return lambda * static_cast<double>(experts * experts) * mean;
}

/// d(loss) / d(logits), where score = f(logits) row by row.
inline std::vector<double> load_balance_backward(const std::vector<double>& logits, const std::vector<double>& density,
                                                 std::size_t batch, std::size_t experts, double lambda,
                                                 ScoreFunction f) {
  const std::size_t tokens = logits.size() / experts, sequence = tokens / batch;
  const double factor =
      lambda * static_cast<double>(experts * experts) / static_cast<double>(batch * experts * sequence);
  std::vector<double> dlogits(logits.size());
  for (std::size_t t = 0; t < tokens; ++t) {
    const std::vector<double> z(logits.begin() + static_cast<std::ptrdiff_t>(t * experts),
                                logits.begin() + static_cast<std::ptrdiff_t>((t + 1) * experts));
    const auto p = softmax(scores(z, f));
    double pull = 0.0;
    for (std::size_t e = 0; e < experts; ++e) pull += p[e] * density[t / sequence * experts + e];
    std::vector<double> ds(experts);
    for (std::size_t e = 0; e < experts; ++e) ds[e] = factor * p[e] * (density[t / sequence * experts + e] - pull);
    const auto dz = scores_backward(z, ds, f);
    std::copy(dz.begin(), dz.end(), dlogits.begin() + static_cast<std::ptrdiff_t>(t * experts));
  }
  return dlogits;
}

}  // namespace kvant::reference
