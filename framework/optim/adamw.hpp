// AdamW over a table of parameters (Loshchilov and Hutter 2019; defaults and the extent of weight decay as in MaxText: every
// trained parameter, norm scales too, unless adamw_mask says otherwise).
#pragma once

#include "config/settings.hpp"
#include "nn/param.hpp"

#include <memory>
#include <vector>

namespace kvant::optim {

class Adamw {
 public:
  /// Refuses a mask that is not a regular expression or that no parameter's path contains.
  Adamw(const config::OptimizerSettings& settings, nn::ParamTable& params);
  ~Adamw();

  /// Memory for both moments (f32), set to zero. The parameters must have theirs.
  void allocate(const Exec& exec);
  /// One update with the gradients times factor [1] (f32, execution memory); clears them and moves every epoch.
  void step(const Exec& exec, double learning_rate, const TensorView& factor);
  int64_t count() const { return count_; }

 private:
  struct Entry {
    nn::Param* param;
    bool decay;
    TensorView m, v;
  };
  config::OptimizerSettings settings_;
  nn::ParamTable& params_;
  std::vector<Entry> entries_;
  std::unique_ptr<Arena> memory_;
  int64_t count_ = 0;
};

}  // namespace kvant::optim
