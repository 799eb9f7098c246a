// While the rows of a tile run over one column panel, the next one is fetched into the second-level cache, a part with every
// block of rows: a weight is met once a tile, and the first block would otherwise wait for each line of it.
#pragma once

#include <stdint.h>

namespace {

class NextPanel {
 public:
  /// The panel of `bytes` after the one at `panel` (0: there is none), in `parts` parts.
  NextPanel(const int8_t* panel, int64_t bytes, int64_t parts) : at_(panel + bytes), end_(at_ + bytes), part_((bytes / parts + 63) / 64 * 64) {}
  void fetch_part() {
    for (const int8_t* stop = at_ + part_ < end_ ? at_ + part_ : end_; at_ < stop; at_ += 64) __builtin_prefetch(at_, 0, 2);
  }

 private:
  const int8_t *at_, *end_;
  int64_t part_;
};

}  // namespace
