#include "data/split.hpp"

#include "base/error.hpp"
#include "base/rng.hpp"
#include "data/sampler.hpp"

#include <algorithm>
#include <cmath>

namespace kvant::data {

Split hold_out(int64_t documents, double fraction, uint64_t seed) {
  // isnan first: the comparisons raise FE_INVALID for NaN.
  if (std::isnan(fraction) || fraction < 0.0 || fraction >= 1.0) {
    refuse("eval_fraction is {}; 0 to below 1 is possible.", fraction);
  }
  int64_t held_out = 0;
  if (fraction > 0.0) {
    if (documents < 2) {
      refuse(
          "The text is one document, of which no part can be held out for validation (eval_fraction = {}); set "
          "eval_fraction = 0, "
          "or a document_separator that finds more documents.",
          fraction);
    }
    held_out = std::clamp<int64_t>(std::llround(fraction * static_cast<double>(documents)), 1, documents - 1);
  }
  Split split;
  for (int64_t document = 0; document < documents; ++document) {
    const bool out = held_out > 0 && shuffled(seed, stream_of("data/hold_out"), document, documents) < held_out;
    (out ? split.eval : split.train).push_back(document);
  }
  return split;
}

}  // namespace kvant::data
