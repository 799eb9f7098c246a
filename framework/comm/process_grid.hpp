// ProcessGrid: how the ranks of a job are arranged, data × fsdp × expert. Ranks along `data` hold the same parameters,
// ranks along `fsdp` a part of each, ranks along `expert` different experts. Each axis is a group of ranks of its own.
#pragma once

#include "comm/communicator.hpp"

namespace kvant::comm {

class ProcessGrid {
 public:
  struct Sizes {
    int data = 1, fsdp = 1, expert = 1;
  };

  /// Throws UsageError unless the sizes are positive and their product is world.size(); today only 1 × 1 × 1 can be
  /// had.
  ProcessGrid(const Communicator& world, const Sizes& sizes);

  const Sizes& sizes() const { return sizes_; }
  Communicator& world() { return world_; }
  Communicator& data() { return data_; }
  Communicator& fsdp() { return fsdp_; }
  Communicator& expert() { return expert_; }

 private:
  Sizes sizes_;
  Communicator world_, data_, fsdp_, expert_;
};

}  // namespace kvant::comm
