// Multi-token prediction looks further ahead: ids, targets and mask of module k (maxtext-semantics 2.6).
#pragma once

#include "data/batch.hpp"

#include <cstdint>
#include <vector>

namespace kvant::train {

/// Arrays [B,S]: what stands k places later in the same document, and 0 where there is nothing (the end of a row or of a
/// document, padding). valid: number of mask entries that are 1.
struct Lookahead {
  std::vector<int32_t> inputs, targets, mask;
  int64_t valid = 0;
};

/// Place s of module k is valid iff segment[s] != 0 and segment[s] = segment[s+k]. (For k >= 2 the reference compares
/// neighbours only and lets a document's last token predict inside the next one.) Where Batch::beyond is given, the last place of
/// a row is valid for k = 1.
void look_ahead(const data::Batch& batch, int k, Lookahead& result);

}  // namespace kvant::train
