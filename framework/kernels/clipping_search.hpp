// The range of a tile that its codes reproduce best: of some candidates below the largest magnitude the one with the
// smallest Σ (value of code - v)². This header is the description, free of Kokkos; the kernel is a template on the
// format (clipping_search_kernel.hpp).
#pragma once

#include "kernels/quantize.hpp"

namespace kvant {

struct ClippingSearch {
  TensorView values;    ///< f32 [tiles, n], dense
  TensorView largest;   ///< f32 [tiles]: the largest magnitude of each
  TensorView counts;    ///< i32 [tiles]: how many values of each count, from the first on; empty: all
  ScaleLaw law;         ///< bound, limit and rule of the scales
  int candidates = 40;  ///< largest · (1 - k · (1 - lowest) / (candidates - 1)), k = 0 …; of equals the largest wins
  float lowest = 0.2f;
  TensorView range;           ///< f32 [tiles], result
  void* workspace = nullptr;  ///< clipping_workspace_bytes(), aligned to 8
};

/// Tiles longer than a chunk are summed in chunks, whose sums are added in order whatever the number of threads.
std::size_t clipping_workspace_bytes(const ClippingSearch& job);

/// largest[i] = max |values[i, ·]| (f32 [tiles, n] → f32 [tiles]); NaN where one is NaN.
void tile_maxima(const Exec& exec, const TensorView& values, const TensorView& largest);

}  // namespace kvant
