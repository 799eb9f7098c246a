#include "data/sampler.hpp"

#include "base/error.hpp"
#include "base/rng.hpp"

#include <algorithm>
#include <bit>

namespace kvant::data {

int64_t shuffled(uint64_t seed, uint64_t stream, int64_t index, int64_t count) {
  require(count >= 1 && index >= 0 && index < count, "Row {} of {} cannot be shuffled.", index, count);
  const int half = std::max(1, (std::bit_width(static_cast<uint64_t>(count - 1)) + 1) / 2);
  require(half <= 31, "{} rows are too many to be shuffled.", count);
  const uint64_t mask = (uint64_t{1} << half) - 1;
  auto value = static_cast<uint64_t>(index);
  do {
    uint64_t left = value >> half, right = value & mask;
    for (uint64_t round = 0; round < 6; ++round) {
      const uint64_t mixed = left ^ (philox(seed, stream, (round << 32) | right).word[0] & mask);
      left = right;
      right = mixed;
    }
    value = (left << half) | right;
  } while (value >= static_cast<uint64_t>(count));
  return static_cast<int64_t>(value);
}

Sampler::Sampler(uint64_t seed, int64_t rows) : seed_(seed), rows_(rows) {
  require(rows >= 1, "There are {} rows to sample from; at least one is needed.", rows);
}

int64_t Sampler::row(SamplerPosition position) const {
  require(position.epoch >= 0, "Epoch {} was asked for; epochs count from 0.", position.epoch);
  return shuffled(seed_, stream_of("data/shuffle") + static_cast<uint64_t>(position.epoch), position.index, rows_);
}

SamplerPosition Sampler::advance(SamplerPosition position, int64_t rows) const {
  require(position.epoch >= 0 && position.index >= 0 && rows >= 0,
          "Data position (epoch {}, index {}) cannot be advanced by {} rows.", position.epoch, position.index, rows);
  const int64_t index = position.index + rows;
  return {position.epoch + index / rows_, index % rows_};
}

}  // namespace kvant::data
