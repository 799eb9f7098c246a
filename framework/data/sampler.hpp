// The order of rows. Where a run stands in its data is a pair of numbers, and which row comes there is a pure function
// of (seed, epoch, index): it depends on nothing that went before, nor on ranks, micro-batches or restarts.
#pragma once

#include <cstdint>

namespace kvant::data {

/// `index` rows of epoch `epoch` have been taken.
struct SamplerPosition {
  int64_t epoch = 0;
  int64_t index = 0;
  bool operator==(const SamplerPosition&) const = default;
};

/// A permutation of 0 … count - 1 for each (seed, stream): where `index` is sent. Stateless: a Feistel network of
/// philox rounds over the next power of four, walked until it lands inside (at most a few steps on average).
int64_t shuffled(uint64_t seed, uint64_t stream, int64_t index, int64_t count);

class Sampler {
 public:
  /// Endless: epoch after epoch over `rows` rows (at least 1), each epoch in an order of its own.
  Sampler(uint64_t seed, int64_t rows);

  /// The row at `position`.
  int64_t row(SamplerPosition position) const;
  /// The position `rows` rows later.
  SamplerPosition advance(SamplerPosition position, int64_t rows) const;
  int64_t rows() const { return rows_; }

 private:
  uint64_t seed_;
  int64_t rows_;
};

}  // namespace kvant::data
