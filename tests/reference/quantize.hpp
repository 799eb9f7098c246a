// Quantization of a matrix in plain loops and double precision: the twin of framework/kernels/quantize_kernel.hpp.
#pragma once

#include <cmath>
#include <cstdint>
#include <vector>

namespace kvant::reference {

struct QuantizeCase {
  int64_t rows = 0, cols = 0;
  std::vector<double> x;              ///< as stored
  std::vector<double> row_factor;     ///< [rows], or empty
  std::vector<double> column_factor;  ///< [groups, cols], or empty
  std::vector<int64_t> group_of_row;  ///< -1: of no group; empty: all of group 0
  int64_t groups = 1;

  int64_t group(int64_t r) const { return group_of_row.empty() ? 0 : group_of_row[static_cast<std::size_t>(r)]; }
  /// The number that is quantized: a float32 product, as every implementation stores it.
  double value(int64_t r, int64_t c) const {
    auto v = static_cast<float>(x[static_cast<std::size_t>(r * cols + c)]);
    if (!row_factor.empty()) v *= static_cast<float>(row_factor[static_cast<std::size_t>(r)]);
    if (!column_factor.empty()) v *= static_cast<float>(column_factor[static_cast<std::size_t>(group(r) * cols + c)]);
    return static_cast<double>(v);
  }
};

/// Index of the scale that element (r,c) shares.
using ScaleIndex = int64_t (*)(const QuantizeCase&, int64_t r, int64_t c);
inline int64_t by_tensor(const QuantizeCase&, int64_t, int64_t) { return 0; }
inline int64_t by_row(const QuantizeCase&, int64_t r, int64_t) { return r; }
inline int64_t by_column(const QuantizeCase&, int64_t, int64_t c) { return c; }
inline int64_t by_group_column(const QuantizeCase& q, int64_t r, int64_t c) { return q.group(r) * q.cols + c; }

/// max|v| of every scale, over the rows that belong to a group.
inline std::vector<double> magnitudes(const QuantizeCase& q, ScaleIndex index, int64_t scales) {
  std::vector<double> m(static_cast<std::size_t>(scales), 0.0);
  for (int64_t r = 0; r < q.rows; ++r) {
    if (q.group(r) < 0) continue;
    for (int64_t c = 0; c < q.cols; ++c) {
      double& largest = m[static_cast<std::size_t>(index(q, r, c))];
      largest = std::fmax(largest, std::fabs(q.value(r, c)));
    }
  }
  return m;
}

/// factor·m/bound; 1 for zero; not below the smallest normal float.
inline double scale(double magnitude, double bound, double factor = 1.0) {
  return magnitude == 0 ? 1.0 : std::fmax(magnitude * factor / bound, 0x1p-126);
}

}  // namespace kvant::reference
