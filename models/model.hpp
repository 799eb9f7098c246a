// Room models: whole networks out of nn/ alone. This header: what the training loop asks of any of them.
#pragma once

#include "nn/param.hpp"
#include "nn/sequence.hpp"
#include "ops/context.hpp"

#include <memory>
#include <vector>

namespace kvant {

/// A micro-batch in execution memory. All i32 [B,S] except where said.
struct ModelBatch {
  nn::Sequence sequence;
  TensorView inputs, targets;
  TensorView mask;  ///< 1 where the target counts
  /// Module k of multi-token prediction: ids, targets and mask of k more places ahead.
  struct Ahead {
    TensorView inputs, targets, mask;
  };
  std::vector<Ahead> ahead;
};

/// What the sums of a micro-batch are worth in the whole optimizer step, so that every valid target weighs the same
/// whatever the number of ranks and micro-batches.
struct LossScales {
  float lm = 0;               ///< 1 / valid targets of the step
  std::vector<float> ahead;   ///< λ / (modules · valid targets of module k in the step)
  float auxiliary = 0;        ///< valid targets of this micro-batch / those of the step
};

/// Where a micro-batch leaves its sums, in execution memory; all are added to.
struct LossSums {
  static constexpr int lm = 0, z = 1, balance = 2, max_logit = 3, ahead = 4;  ///< places in `values`
  TensorView values;  ///< f32 [4 + modules]: Σ cross entropy incl. z term, Σ z term, λ-weighted balance loss, largest logit, Σ per module
  static constexpr int router_nonfinite = 0, bad_ids = 1, bad_targets = 2;    ///< places in `counts`
  TensorView counts;  ///< i32 [3]
};

class Model {
 public:
  virtual ~Model();
  nn::ParamTable& params() { return params_; }
  SiteTable& sites() { return sites_; }
  const SiteTable& sites() const { return sites_; }

  /// Called once, after params().allocate(): buffers of the model's own.
  virtual void allocate(StepContext& ctx) = 0;
  /// Forward and backward: gradients accumulate in params(), sums in `sums`.
  virtual void train(StepContext& ctx, const ModelBatch& batch, const LossScales& scales, const LossSums& sums) = 0;
  /// Forward alone.
  virtual void evaluate(StepContext& ctx, const ModelBatch& batch, const LossSums& sums) = 0;
  /// After the optimizer: the selection bias moves by the counts of the step (once, whatever the micro-batches), which are then cleared.
  virtual void end_step(StepContext& ctx) = 0;

  /// Routed layers and their token counts of the current step (i32 [X]), for balancing over ranks and for the metrics.
  struct ExpertLoad {
    std::string layer;
    TensorView counts;
  };
  virtual const std::vector<ExpertLoad>& expert_loads() const = 0;

 protected:
  nn::ParamTable params_;
  SiteTable sites_;
};

/// The network that decoder_block names. Names parameters and sites, allocates nothing.
std::unique_ptr<Model> make_model(const config::ModelSettings& settings);

}  // namespace kvant
