// Quantization by tiles in plain loops and double precision: the twin of framework/kernels/quantize_tiles_kernel.hpp.
#pragma once

#include <cmath>
#include <cstdint>
#include <vector>

namespace kvant::reference {

struct TiledTensor {
  std::vector<int64_t> shape, tile;
  std::vector<double> x;

  int64_t count() const {
    int64_t n = 1;
    for (const int64_t d : shape) n *= d;
    return n;
  }
  int64_t tiles() const {
    int64_t n = 1;
    for (std::size_t a = 0; a < shape.size(); ++a) n *= shape[a] / tile[a];
    return n;
  }
  /// Number of the tile that an element lies in: its tile coordinates, row-major.
  int64_t tile_of(int64_t element) const {
    std::vector<int64_t> index(shape.size());
    for (std::size_t a = shape.size(); a-- > 0;) {
      index[a] = element % shape[a];
      element /= shape[a];
    }
    int64_t number = 0;
    for (std::size_t a = 0; a < shape.size(); ++a) number = number * (shape[a] / tile[a]) + index[a] / tile[a];
    return number;
  }
};

struct TileRange {
  double low = 0, high = 0;  ///< of the values and 0
  double size() const { return std::fmax(-low, high); }
};

inline std::vector<TileRange> ranges(const TiledTensor& t) {
  std::vector<TileRange> r(static_cast<std::size_t>(t.tiles()));
  for (int64_t i = 0; i < t.count(); ++i) {
    TileRange& range = r[static_cast<std::size_t>(t.tile_of(i))];
    range.low = std::fmin(range.low, t.x[static_cast<std::size_t>(i)]);
    range.high = std::fmax(range.high, t.x[static_cast<std::size_t>(i)]);
  }
  return r;
}

/// The smallest power of two that is not below v.
inline double power_above(double v) { return std::exp2(std::ceil(std::log2(v))); }

}  // namespace kvant::reference
