// While the rows of a tile run over one column panel, the next one is fetched into the second-level cache, a part with every
// block of rows: a weight is met once a tile, and the first block would otherwise wait for each line of it.
#pragma once

#include "kernels/isa/int8_tile.hpp"

#include <stdint.h>

namespace {

class NextPanel {
 public:
  /// The panel of `bytes` in each block of the tile after the one at `panel` (0: there is none), in `parts` parts.
  NextPanel(const kvant::isa::Int8Tile& tile, const int8_t* panel, int64_t bytes, int64_t parts)
      : panel_(panel + bytes), bytes_(bytes), step_(tile.b_step), end_(bytes * tile.blocks), part_((end_ / parts + 63) / 64 * 64) {}
  void fetch_part() {
    for (const int64_t stop = at_ + part_ < end_ ? at_ + part_ : end_; at_ < stop; at_ += 64) {
      if (at_ - first_ >= bytes_) {
        first_ += bytes_;
        panel_ += step_;
      }
      __builtin_prefetch(panel_ + (at_ - first_), 0, 2);
    }
  }

 private:
  const int8_t* panel_;
  int64_t bytes_, step_, end_, part_;
  int64_t at_ = 0, first_ = 0;  ///< bytes of all blocks; those before the block that panel_ is in
};

}  // namespace
