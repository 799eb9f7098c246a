#include "train/lookahead.hpp"

namespace kvant::train {

void look_ahead(const data::Batch& batch, int k, Lookahead& result) {
  const auto n = static_cast<std::size_t>(batch.batch * batch.seq);
  for (auto* v : {&result.inputs, &result.targets, &result.mask}) v->assign(n, 0);
  result.valid = 0;
  for (int64_t row = 0; row < batch.batch; ++row) {
    for (int64_t s = 0; s + k < batch.seq; ++s) {
      const auto here = static_cast<std::size_t>(row * batch.seq + s), there = here + static_cast<std::size_t>(k);
      const int32_t segment = batch.inputs_segmentation[here];
      if (segment == 0 || batch.inputs_segmentation[there] != segment) continue;
      result.inputs[here] = batch.inputs[there];
      result.targets[here] = batch.targets[there];
      result.mask[here] = batch.targets_segmentation[there] != 0 ? 1 : 0;
      result.valid += result.mask[here];
    }
    if (k != 1 || batch.beyond.empty()) continue;
    // The last place of a row whose next token is known.
    const auto last = static_cast<std::size_t>((row + 1) * batch.seq - 1);
    result.inputs[last] = batch.targets[last];
    result.targets[last] = batch.beyond[static_cast<std::size_t>(row)];
    result.mask[last] = 1;
    ++result.valid;
  }
}

}  // namespace kvant::train
