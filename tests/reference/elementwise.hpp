// Element by element in double: what kernels/elementwise.hpp is compared with.
#pragma once

#include <cstddef>
#include <vector>

namespace kvant::reference {

inline std::vector<double> add(std::vector<double> a, const std::vector<double>& b) {
  for (std::size_t i = 0; i < a.size(); ++i) a[i] += b[i];
  return a;
}

inline std::vector<double> scaled(std::vector<double> a, double factor) {
  for (double& x : a) x *= factor;
  return a;
}

}  // namespace kvant::reference
