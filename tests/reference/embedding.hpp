// Table rows and the sum of their gradients in double: what kernels/embedding.hpp is compared with.
#pragma once

#include <cstddef>
#include <vector>

namespace kvant::reference {

inline std::vector<double> embedding(const std::vector<int>& ids, const std::vector<double>& table, std::size_t d) {
  const auto vocabulary = static_cast<int>(table.size() / d);
  std::vector<double> y(ids.size() * d);
  for (std::size_t t = 0; t < ids.size(); ++t)
    if (ids[t] >= 0 && ids[t] < vocabulary)
      for (std::size_t i = 0; i < d; ++i) y[t * d + i] = table[static_cast<std::size_t>(ids[t]) * d + i];
  return y;
}

inline std::vector<double> embedding_backward(const std::vector<int>& ids, const std::vector<double>& dy, std::size_t d,
                                              std::size_t vocabulary) {
  std::vector<double> dtable(vocabulary * d);
  for (std::size_t t = 0; t < ids.size(); ++t)
    if (ids[t] >= 0 && static_cast<std::size_t>(ids[t]) < vocabulary)
      for (std::size_t i = 0; i < d; ++i) dtable[static_cast<std::size_t>(ids[t]) * d + i] += dy[t * d + i];
  return dtable;
}

}  // namespace kvant::reference
