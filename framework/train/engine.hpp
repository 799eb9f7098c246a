// Engine: one optimizer step of one model, micro-batches, norms, clipping and balancing included. The trainer, `kvant verify`
// and `kvant bench step` all run this same code.
#pragma once

#include "comm/communicator.hpp"
#include "config/settings.hpp"
#include "data/batch.hpp"
#include "models/model.hpp"
#include "optim/adamw.hpp"
#include "tensor/arena.hpp"
#include "train/lookahead.hpp"

#include <memory>
#include <span>
#include <string>
#include <vector>

namespace kvant::train {

/// Losses as the reference reports them: per valid target; total = lm + mtp + moe_lb (mtp and moe_lb carry their factors).
struct Losses {
  double total = 0, lm = 0, mtp = 0, moe_lb = 0, z = 0;
  double xent_sum = 0;              ///< Σ over valid targets of the main loss
  double weights = 0;               ///< valid targets
  std::vector<double> mtp_sum, mtp_weights;  ///< per module: Σ cross entropy, valid targets
  double max_logit = 0;
};

struct StepReport {
  Losses losses;
  double raw_grad_norm = 0, grad_norm = 0, param_norm = 0;
  bool skipped = false;  ///< no valid target in the whole step: nothing was changed, losses and norms are NaN, counts 0
  /// Tokens of each expert, layer by layer as in Model::expert_loads().
  std::vector<std::vector<int32_t>> expert_tokens;
};

class Engine {
 public:
  Engine(const config::Settings& settings, std::unique_ptr<Model> model, const Exec& exec, comm::Communicator& world);
  ~Engine();

  Model& model() { return *model_; }
  const Model& model() const { return *model_; }
  /// Memory and initial values. Whatever is bound to the sites must be bound before.
  void allocate();

  /// Forward and backward of all micro-batches, then the update. Stops with an Error (ExitCode::numerics) that names the first
  /// tensor which is not finite; the parameters are then those before the step, unless the update itself overflowed.
  StepReport step(std::span<const data::Batch> micro_batches, int64_t step, double learning_rate);
  /// Forward and backward alone; gradients stay in the parameters. For verification.
  Losses differentiate(std::span<const data::Batch> micro_batches, const Tap* tap);
  /// Forward alone, no gradient, no counts. Stops like step() where the loss is not finite.
  Losses evaluate(const data::Batch& batch);
  void clear_gradients();
  /// Told of every operand that the forward and backward passes of step() quantize; null: nobody.
  void set_watch(OperandWatch* watch) { watch_ = watch; }
  /// What follows an update: the selection bias moves by the counts, which are cleared.
  void end_step(int64_t step);

  std::size_t step_bytes() const { return step_arena_.peak(); }
  /// How often the step's memory has grown: constant after the first step.
  std::size_t growth_count() const { return step_arena_.growth_count() + state_arena_.growth_count(); }

 private:
  struct Weights {
    int64_t lm = 0;
    std::vector<int64_t> ahead;
  };
  StepContext context(int64_t step, int64_t micro_batch, Phase phase, const Tap* tap);
  void look_ahead_all(const data::Batch& batch);
  ModelBatch upload_batch(StepContext& ctx, const data::Batch& batch);
  Weights count_targets(std::span<const data::Batch> micro_batches);
  void backward_all(std::span<const data::Batch> micro_batches, const Weights& weights, int64_t step, const Tap* tap);
  Losses read_losses(std::span<const data::Batch> micro_batches, const Weights& weights);
  /// Values of the tensor that are not finite.
  int32_t nonfinite_in(const TensorView& tensor);
  /// "the parameter PATH (n of m values)", or "" if all are finite.
  std::string first_bad_parameter();
  /// "the gradient of PATH, whose largest magnitude is …": where every value is finite and the sum of squares is not.
  std::string largest_of(const char* what, bool gradients);
  /// Notes the first tensor that it is shown and that is not finite.
  Tap first_bad_tensor(std::string& first);
  [[noreturn]] void name_first_nonfinite(std::span<const data::Batch> micro_batches, const Weights& weights, int64_t step);
  void prepare_sums(std::size_t micro_batches);
  LossSums sums_of(std::size_t micro_batch) const;

  config::Settings settings_;
  std::unique_ptr<Model> model_;
  const Exec& exec_;
  comm::Communicator& world_;
  OperandWatch* watch_ = nullptr;
  Arena step_arena_, state_arena_, report_arena_;
  std::unique_ptr<optim::Adamw> optimizer_;
  std::vector<Lookahead> ahead_;
  std::vector<int32_t> mask_, load_;
  std::vector<float> host_values_;
  std::vector<int32_t> host_counts_;
  TensorView values_, counts_;  ///< sums of all micro-batches [M, slots]
  TensorView norms_;            ///< f32 [4]: Σ gradient², norm, factor, Σ parameter²
  TensorView bad_count_;        ///< i32 [1]
};

}  // namespace kvant::train
