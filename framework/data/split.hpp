// Which documents training never sees.
#pragma once

#include <cstdint>
#include <vector>

namespace kvant::data {

/// Document numbers, ascending.
struct Split {
  std::vector<int64_t> train, eval;
};

/// Holds out round(fraction · documents) documents, but at least one and never all, drawn by `seed`; none if `fraction`
/// is 0. Refuses a fraction outside [0, 1) and, where `fraction` is not 0, a text of one document.
Split hold_out(int64_t documents, double fraction, uint64_t seed);

}  // namespace kvant::data
