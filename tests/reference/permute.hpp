// The way of tokens to experts and back in double: what kernels/permute.hpp is compared with.
#pragma once

#include <algorithm>
#include <cstddef>
#include <numeric>
#include <vector>

namespace kvant::reference {

struct RoutePlan {
  std::vector<int> offsets, row_of_slot, slot_of_row;
};

inline RoutePlan route_plan(const std::vector<int>& index, int experts) {
  RoutePlan p{std::vector<int>(static_cast<std::size_t>(experts) + 1), std::vector<int>(index.size()),
              std::vector<int>(index.size())};
  std::iota(p.slot_of_row.begin(), p.slot_of_row.end(), 0);
  std::stable_sort(p.slot_of_row.begin(), p.slot_of_row.end(), [&](int a, int b) {
    return index[static_cast<std::size_t>(a)] < index[static_cast<std::size_t>(b)];
  });
  for (std::size_t r = 0; r < index.size(); ++r)
    p.row_of_slot[static_cast<std::size_t>(p.slot_of_row[r])] = static_cast<int>(r);
  for (const int e : index)
    for (int later = e + 1; later <= experts; ++later) ++p.offsets[static_cast<std::size_t>(later)];
  return p;
}

inline std::vector<double> permute(const std::vector<double>& x, std::size_t d, const std::vector<int>& slot_of_row,
                                   std::size_t k) {
  std::vector<double> xs(slot_of_row.size() * d);
  for (std::size_t r = 0; r < slot_of_row.size(); ++r)
    for (std::size_t i = 0; i < d; ++i) xs[r * d + i] = x[static_cast<std::size_t>(slot_of_row[r]) / k * d + i];
  return xs;
}

/// sum over k of weight * ys; weights of 1 give the backward of permute.
inline std::vector<double> combine(const std::vector<double>& ys, std::size_t d, const std::vector<int>& row_of_slot,
                                   std::size_t k, const std::vector<double>& weight) {
  std::vector<double> y(row_of_slot.size() / k * d);
  for (std::size_t slot = 0; slot < row_of_slot.size(); ++slot)
    for (std::size_t i = 0; i < d; ++i)
      y[slot / k * d + i] += weight[slot] * ys[static_cast<std::size_t>(row_of_slot[slot]) * d + i];
  return y;
}

struct CombineGradient {
  std::vector<double> dys, dweight;
};

inline CombineGradient combine_backward(const std::vector<double>& dy, const std::vector<double>& ys, std::size_t d,
                                        const std::vector<int>& row_of_slot, std::size_t k,
                                        const std::vector<double>& weight) {
  CombineGradient g{std::vector<double>(ys.size()), std::vector<double>(weight.size())};
  for (std::size_t slot = 0; slot < row_of_slot.size(); ++slot) {
    const auto row = static_cast<std::size_t>(row_of_slot[slot]);
    for (std::size_t i = 0; i < d; ++i) {
      g.dys[row * d + i] = weight[slot] * dy[slot / k * d + i];
      g.dweight[slot] += dy[slot / k * d + i] * ys[row * d + i];
    }
  }
  return g;
}

}  // namespace kvant::reference
