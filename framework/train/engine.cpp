#include "train/engine.hpp"

#include "base/error.hpp"
#include "kernels/elementwise.hpp"
#include "kernels/reduce.hpp"
#include "kernels/transfer.hpp"

#include <cmath>
#include <cstring>
#include <limits>

namespace kvant::train {
namespace {
constexpr int64_t count_slots = 3;
}

Engine::Engine(const config::Settings& settings, std::unique_ptr<Model> model, const Exec& exec, comm::Communicator& world)
    : settings_(settings),
      model_(std::move(model)),
      exec_(exec),
      world_(world),
      step_arena_("step"),
      state_arena_("state"),
      report_arena_("report"),
      optimizer_(std::make_unique<optim::Adamw>(settings.optimizer, model_->params())),
      ahead_(static_cast<std::size_t>(settings.model.mtp_num_layers)) {}

Engine::~Engine() = default;

void Engine::allocate() {
  model_->params().allocate();
  model_->params().initialise(exec_, settings_.run.seed);
  optimizer_->allocate(exec_);
  StepContext ctx = context(0, 0, Phase::train, nullptr);
  model_->allocate(ctx);
  norms_ = report_arena_.allocate(DType::f32, {4});
}

StepContext Engine::context(int64_t step, int64_t micro_batch, Phase phase, const Tap* tap) {
  return {exec_, step_arena_, state_arena_, step, micro_batch, settings_.run.seed, phase, tap};
}

void Engine::clear_gradients() { model_->params().zero_gradients(exec_); }

void Engine::end_step(int64_t step) {
  StepContext ctx = context(step, 0, Phase::train, nullptr);
  model_->end_step(ctx);
}

StepReport Engine::step(std::span<const data::Batch> micro_batches, int64_t step, double learning_rate) {
  StepReport report;
  const Weights weights = count_targets(micro_batches);
  if (weights.lm == 0) {
    const double none = std::numeric_limits<double>::quiet_NaN();
    report.skipped = true;
    report.losses.total = report.losses.lm = report.losses.mtp = report.losses.moe_lb = report.losses.z = report.losses.max_logit = none;
    report.raw_grad_norm = report.grad_norm = report.param_norm = none;
    for (const Model::ExpertLoad& load : model_->expert_loads()) report.expert_tokens.emplace_back(static_cast<std::size_t>(load.counts.numel()), 0);
    return report;
  }
  backward_all(micro_batches, weights, step, nullptr);

  const nn::ParamTable& params = model_->params();
  const auto slot = [&](int64_t i) { return norms_.slice_rows(i, 1); };
  sum_squares(exec_, params.gradients(), slot(0), step_arena_);
  world_.all_reduce_sum(exec_, slot(0));
  clip_factor(exec_, slot(0), static_cast<float>(settings_.optimizer.gradient_clipping_threshold), slot(1), slot(2));
  float norms[4];
  download(exec_, norms_, norms);
  report.losses = read_losses(micro_batches, weights);
  if (!std::isfinite(report.losses.total) || !std::isfinite(norms[1])) name_first_nonfinite(micro_batches, weights, step);
  report.raw_grad_norm = norms[1];
  report.grad_norm = static_cast<double>(norms[1]) * norms[2];

  optimizer_->step(exec_, learning_rate, slot(2));
  for (const Model::ExpertLoad& load : model_->expert_loads()) {
    world_.all_reduce_sum(exec_, load.counts);
    load_.resize(static_cast<std::size_t>(load.counts.numel()));
    download(exec_, load.counts, load_.data());
    report.expert_tokens.push_back(load_);
  }
  end_step(step);
  sum_squares(exec_, params.values(), slot(3), step_arena_);
  download(exec_, norms_, norms);
  report.param_norm = std::sqrt(static_cast<double>(norms[3]));
  if (!std::isfinite(norms[3])) {
    const std::string bad = first_bad_parameter();
    throw Error(fmt::format("Step {}: the update with learning rate {} has left parameters that are not finite, or whose squares are not. First: {}.", step, learning_rate,
                            bad.empty() ? largest_of("parameter", false) : bad),
                ExitCode::numerics);
  }
  step_arena_.reset();
  return report;
}

Losses Engine::differentiate(std::span<const data::Batch> micro_batches, const Tap* tap) {
  const Weights weights = count_targets(micro_batches);
  require(weights.lm > 0, "The batch holds no valid target.");
  backward_all(micro_batches, weights, 0, tap);
  const Losses losses = read_losses(micro_batches, weights);
  step_arena_.reset();
  return losses;
}

Losses Engine::evaluate(const data::Batch& batch) {
  const std::span<const data::Batch> one(&batch, 1);
  const Weights weights = count_targets(one);
  if (weights.lm == 0) return {};
  prepare_sums(1);
  StepContext ctx = context(0, 0, Phase::eval, nullptr);
  {
    const ArenaScope scope(step_arena_);
    look_ahead_all(batch);
    model_->evaluate(ctx, upload_batch(ctx, batch), sums_of(0));
  }
  const Losses losses = read_losses(one, weights);
  step_arena_.reset();
  if (!std::isfinite(losses.total)) {
    std::string first = first_bad_parameter();
    if (first.empty()) {
      const Tap look = first_bad_tensor(first);
      StepContext again = context(0, 0, Phase::eval, &look);
      const ArenaScope scope(step_arena_);
      model_->evaluate(again, upload_batch(again, batch), sums_of(0));
    }
    throw Error(fmt::format("The loss of an evaluation is not finite. First: {}.", first.empty() ? "the loss itself" : first), ExitCode::numerics);
  }
  return losses;
}

void Engine::look_ahead_all(const data::Batch& batch) {
  for (std::size_t k = 0; k < ahead_.size(); ++k) look_ahead(batch, static_cast<int>(k) + 1, ahead_[k]);
}

Engine::Weights Engine::count_targets(std::span<const data::Batch> micro_batches) {
  Weights w;
  std::vector<int64_t> totals(1 + ahead_.size(), 0);
  for (const data::Batch& batch : micro_batches) {
    totals[0] += batch.valid_targets;
    look_ahead_all(batch);
    for (std::size_t k = 0; k < ahead_.size(); ++k) totals[k + 1] += ahead_[k].valid;
  }
  world_.all_reduce_sum(std::span<int64_t>(totals));
  w.lm = totals[0];
  w.ahead.assign(totals.begin() + 1, totals.end());
  return w;
}

ModelBatch Engine::upload_batch(StepContext& ctx, const data::Batch& batch) {
  const Shape shape{batch.batch, batch.seq};
  const auto put = [&](const std::vector<int32_t>& host) {
    const TensorView t = ctx.arena.allocate(DType::i32, shape);
    upload(exec_, host.data(), t);
    return t;
  };
  ModelBatch b;
  b.sequence.batch = batch.batch, b.sequence.seq = batch.seq;
  b.sequence.positions = put(batch.inputs_position);
  b.sequence.segments = put(batch.inputs_segmentation);
  b.inputs = put(batch.inputs);
  b.targets = put(batch.targets);
  mask_.resize(batch.targets_segmentation.size());
  for (std::size_t i = 0; i < mask_.size(); ++i) mask_[i] = batch.targets_segmentation[i] != 0 ? 1 : 0;
  b.mask = put(mask_);
  for (const Lookahead& a : ahead_) b.ahead.push_back({put(a.inputs), put(a.targets), put(a.mask)});
  return b;
}

void Engine::prepare_sums(std::size_t micro_batches) {
  const auto m = static_cast<int64_t>(micro_batches), slots = LossSums::ahead + settings_.model.mtp_num_layers;
  if (values_.shape.rank == 0 || values_.shape[0] < m) {
    values_ = report_arena_.allocate(DType::f32, {m, slots});
    counts_ = report_arena_.allocate(DType::i32, {m, count_slots});
    host_values_.resize(static_cast<std::size_t>(values_.numel()));
    host_counts_.resize(static_cast<std::size_t>(counts_.numel()));
  }
  fill(exec_, values_, 0.0f);
  fill(exec_, counts_, 0.0f);
}

LossSums Engine::sums_of(std::size_t micro_batch) const {
  const auto i = static_cast<int64_t>(micro_batch);
  return {values_.slice_rows(i, 1).reshaped({values_.cols()}), counts_.slice_rows(i, 1).reshaped({count_slots})};
}

void Engine::backward_all(std::span<const data::Batch> micro_batches, const Weights& weights, int64_t step, const Tap* tap) {
  prepare_sums(micro_batches.size());
  LossScales scales;
  scales.lm = 1.0f / static_cast<float>(weights.lm);
  const double modules = static_cast<double>(weights.ahead.size());
  for (const int64_t valid : weights.ahead) {
    const double scale = settings_.model.mtp_loss_scaling_factor / modules / static_cast<double>(std::max<int64_t>(valid, 1));
    scales.ahead.push_back(valid > 0 ? static_cast<float>(scale) : 0.0f);
  }
  for (std::size_t i = 0; i < micro_batches.size(); ++i) {
    StepContext ctx = context(step, static_cast<int64_t>(i), Phase::train, tap);
    ctx.watch = watch_;
    ctx.sequence_length = micro_batches[i].seq;
    const ArenaScope scope(step_arena_);
    look_ahead_all(micro_batches[i]);
    scales.auxiliary = static_cast<float>(static_cast<double>(micro_batches[i].valid_targets) / static_cast<double>(weights.lm));
    model_->train(ctx, upload_batch(ctx, micro_batches[i]), scales, sums_of(i));
  }
}

Losses Engine::read_losses(std::span<const data::Batch> micro_batches, const Weights& weights) {
  download(exec_, values_, host_values_.data());
  download(exec_, counts_, host_counts_.data());
  const auto slots = static_cast<std::size_t>(values_.cols());
  Losses l;
  l.weights = static_cast<double>(weights.lm);
  l.max_logit = -std::numeric_limits<double>::infinity();
  l.mtp_sum.assign(weights.ahead.size(), 0.0);
  double z_sum = 0;
  for (std::size_t i = 0; i < micro_batches.size(); ++i) {
    const float* v = host_values_.data() + i * slots;
    const int32_t* c = host_counts_.data() + i * count_slots;
    if (c[LossSums::bad_ids] + c[LossSums::bad_targets] > 0)
      fail("{} token ids of a batch lie outside of the vocabulary of {} (model.vocab_size).", c[LossSums::bad_ids] + c[LossSums::bad_targets],
           settings_.model.vocab_size);
    const double share = static_cast<double>(micro_batches[i].valid_targets) / l.weights;
    l.xent_sum += v[LossSums::lm];
    z_sum += v[LossSums::z];
    l.moe_lb += share * v[LossSums::balance];
    // Quiet comparisons: a NaN stays, and is no floating-point trap here but named below.
    const double largest = v[LossSums::max_logit];
    if (std::isnan(largest) || std::isgreater(largest, l.max_logit)) l.max_logit = largest;
    for (std::size_t k = 0; k < l.mtp_sum.size(); ++k) l.mtp_sum[k] += v[LossSums::ahead + k];
    // A router row that is not finite would choose experts by accident: the loss is made to say so.
    if (c[LossSums::router_nonfinite] > 0) l.xent_sum = std::numeric_limits<double>::quiet_NaN();
  }
  l.lm = l.xent_sum / l.weights;
  l.z = z_sum / l.weights;
  for (std::size_t k = 0; k < l.mtp_sum.size(); ++k) {
    l.mtp_weights.push_back(static_cast<double>(weights.ahead[k]));
    if (weights.ahead[k] > 0) l.mtp += settings_.model.mtp_loss_scaling_factor / static_cast<double>(l.mtp_sum.size()) * l.mtp_sum[k] / l.mtp_weights[k];
  }
  l.total = l.lm + l.mtp + l.moe_lb;
  return l;
}

int32_t Engine::nonfinite_in(const TensorView& tensor) {
  if (bad_count_.shape.rank == 0) bad_count_ = report_arena_.allocate(DType::i32, {1});
  int32_t n = 0;
  fill(exec_, bad_count_, 0.0f);
  count_nonfinite(exec_, tensor, bad_count_);
  download(exec_, bad_count_, &n);
  return n;
}

std::string Engine::first_bad_parameter() {
  for (const nn::Param* p : model_->params().all())
    if (const int32_t n = nonfinite_in(p->value); n > 0) return fmt::format("the parameter {} ({} of {} values)", p->path, n, p->shape.numel());
  return {};
}

std::string Engine::largest_of(const char* what, bool gradients) {
  const nn::Param* found = nullptr;
  float largest = -1;
  std::vector<float> values;
  for (const nn::Param* p : model_->params().all()) {
    if (gradients && !p->trained) continue;
    values.resize(static_cast<std::size_t>(p->shape.numel()));
    download(exec_, gradients ? p->gradient : p->value, values.data());
    for (const float v : values)
      if (std::isgreater(std::fabs(v), largest)) largest = std::fabs(v), found = p;
  }
  return fmt::format("the {} {}, whose largest magnitude is {:.3g}: squares of such numbers overflow float32", what, found == nullptr ? "?" : found->path, largest);
}

Tap Engine::first_bad_tensor(std::string& first) {
  return [this, &first](const std::string& name, const TensorView& tensor) {
    if (!first.empty()) return;
    if (const int32_t n = nonfinite_in(tensor); n > 0) first = fmt::format("{} ({} of {} values)", name, n, tensor.numel());
  };
}

void Engine::name_first_nonfinite(std::span<const data::Batch> micro_batches, const Weights& weights, int64_t step) {
  // The step is run once more, looking at every tensor: parameters have not changed, so it is the same step.
  std::string first = first_bad_parameter();
  const Tap look = first_bad_tensor(first);
  clear_gradients();
  if (first.empty()) backward_all(micro_batches, weights, step, &look);
  // Backward runs from the end of the model to its beginning: the last parameter in the order of the forward pass comes first.
  const auto& all = model_->params().all();
  for (std::size_t i = all.size(); first.empty() && i-- > 0;)
    if (all[i]->trained)
      if (const int32_t n = nonfinite_in(all[i]->gradient); n > 0) first = fmt::format("the gradient of {} ({} of {} values)", all[i]->path, n, all[i]->shape.numel());
  if (first.empty()) first = largest_of("gradient of", true);
  throw Error(fmt::format("Step {}: the loss, the gradients or their squares are not finite. First: {}. The parameters are those before this step.", step, first),
              ExitCode::numerics);
}

}  // namespace kvant::train
