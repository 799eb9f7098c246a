// Reductions in long double: what kernels/reduce.hpp is compared with.
#pragma once

#include <cmath>
#include <vector>

namespace kvant::reference {

inline double sum(const std::vector<double>& x) {
  long double s = 0.0L;
  for (const double v : x) s += v;
  return static_cast<double>(s);
}

inline double sum_squares(const std::vector<double>& x) {
  long double s = 0.0L;
  for (const double v : x) s += static_cast<long double>(v) * v;
  return static_cast<double>(s);
}

inline double maximum(const std::vector<double>& x) {
  double m = -HUGE_VAL;
  for (const double v : x) m = v > m ? v : m;
  return m;
}

inline double absmax(const std::vector<double>& x) {
  double m = 0.0;
  for (const double v : x) m = std::fabs(v) > m ? std::fabs(v) : m;
  return m;
}

}  // namespace kvant::reference
