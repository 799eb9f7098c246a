#include "train/trainer.hpp"

#include "base/error.hpp"
#include "base/log.hpp"
#include "optim/schedule.hpp"
#include "train/flops.hpp"
#include "train/operand_metrics.hpp"
#include "train/speed_of_light.hpp"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <limits>

namespace kvant::train {
namespace {

using Clock = std::chrono::steady_clock;

double seconds_since(Clock::time_point begin) { return std::chrono::duration<double>(Clock::now() - begin).count(); }

/// Micro-batches of one optimizer step.
class BatchSource {
 public:
  BatchSource(const config::Settings& settings, const data::Dataset& dataset)
      : dataset_(dataset), batches_(static_cast<std::size_t>(settings.data.gradient_accumulation_steps)),
        rows_(config::sequences_per_step(settings.data) / settings.data.gradient_accumulation_steps) {}
  std::span<const data::Batch> next() {
    for (data::Batch& b : batches_) {
      dataset_.fill_train(position_, rows_, b);
      position_ = dataset_.advance(position_, rows_);
    }
    return batches_;
  }

 private:
  const data::Dataset& dataset_;
  std::vector<data::Batch> batches_;
  int64_t rows_;
  data::SamplerPosition position_;
};

Row row_of(const StepReport& report, const Engine& engine, double learning_rate) {
  const Losses& l = report.losses;
  Row row = {{"learning/loss", l.total},       {"learning/lm_loss", l.lm},           {"learning/perplexity", std::exp(l.lm)},
             {"learning/z_loss", l.z},         {"learning/moe_lb_loss", l.moe_lb},   {"learning/mtp_loss", l.mtp},
             {"learning/total_weights", l.weights}, {"learning/grad_norm", report.grad_norm},
             {"learning/raw_grad_norm", report.raw_grad_norm}, {"learning/param_norm", report.param_norm},
             {"learning/current_learning_rate", learning_rate}, {"learning/max_logits", l.max_logit}};
  const auto& loads = engine.model().expert_loads();
  for (std::size_t layer = 0; layer < report.expert_tokens.size(); ++layer)
    for (std::size_t e = 0; e < report.expert_tokens[layer].size(); ++e)
      row.emplace_back(fmt::format("moe/tokens/{}/{}", loads[layer].layer, e), report.expert_tokens[layer][e]);
  return row;
}

void add_speed(Row& row, const config::Settings& settings, double sequences, double seconds, double at_peak) {
  const double tera = training_flops(settings.model, sequences).total() / 1e12;
  const double tokens = sequences * static_cast<double>(settings.model.max_target_length);
  row.insert(row.end(), {{"perf/step_time_seconds", seconds}, {"perf/per_device_tflops", tera}, {"perf/per_device_tflops_per_sec", tera / seconds},
                         {"perf/per_device_tokens", tokens}, {"perf/per_device_tokens_per_sec", tokens / seconds}, {"perf/sol", at_peak / seconds}});
}

double value_of(const Row& row, const std::string& key) {
  const auto found = std::find_if(row.begin(), row.end(), [&](const auto& field) { return field.first == key; });
  return found == row.end() ? std::numeric_limits<double>::quiet_NaN() : found->second;
}

}  // namespace

Row evaluate(const config::Settings& settings, const data::Dataset& dataset, Engine& engine) {
  const int64_t rows = config::sequences_per_step(settings.data) / settings.data.gradient_accumulation_steps;
  const int64_t all = (dataset.eval_rows() + rows - 1) / rows;
  const int64_t batches = settings.metrics.eval_steps < 0 ? all : std::min(all, settings.metrics.eval_steps);
  data::Batch batch;
  double xent = 0, weights = 0, z = 0, balance = 0;
  std::vector<double> mtp(static_cast<std::size_t>(settings.model.mtp_num_layers), 0.0), mtp_weights(mtp.size(), 0.0);
  for (int64_t i = 0; i < batches; ++i) {
    if (StopSignal::received() != 0) return {};
    dataset.fill_eval(i * rows, rows, batch);
    if (batch.valid_targets == 0) continue;
    const Losses l = engine.evaluate(batch);
    xent += l.xent_sum;
    weights += l.weights;
    z += l.z * l.weights;
    balance += l.moe_lb * l.weights;
    for (std::size_t k = 0; k < mtp.size(); ++k) mtp[k] += l.mtp_sum[k], mtp_weights[k] += l.mtp_weights[k];
  }
  if (weights == 0) return {};
  double mtp_loss = 0;
  for (std::size_t k = 0; k < mtp.size(); ++k)
    if (mtp_weights[k] > 0) mtp_loss += settings.model.mtp_loss_scaling_factor / static_cast<double>(mtp.size()) * mtp[k] / mtp_weights[k];
  return {{"eval/avg_loss", xent / weights},          {"eval/avg_perplexity", std::exp(xent / weights)}, {"eval/total_weights", weights},
          {"eval/avg_z_loss", z / weights},           {"eval/avg_moe_lb_loss", balance / weights},       {"eval/avg_mtp_loss", mtp_loss}};
}

RunResult train(const config::Settings& settings, const data::Dataset& dataset, Engine& engine, Runtime& runtime, MetricsWriter& metrics) {
  RunResult result{0, std::numeric_limits<double>::quiet_NaN(), 0, 0};
  const int64_t steps = settings.run.steps, interval = settings.metrics.eval_interval;
  const auto sequences = static_cast<double>(config::sequences_per_step(settings.data));
  const double tokens = sequences * static_cast<double>(settings.model.max_target_length);
  const double at_peak = seconds_at_peak(engine.model().sites(), tokens, runtime.threads());
  BatchSource source(settings, dataset);
  OperandMetrics operands;
  bool operand_columns = settings.metrics.quantization_stats;
  std::vector<double> speeds;
  int64_t trained = 0;

  for (int64_t step = 0; step < steps && StopSignal::received() == 0; ++step) {
    const Clock::time_point begin = Clock::now();
    const double learning_rate = optim::learning_rate(settings.optimizer, steps, step);
    // Where a line of the console is due the operands are looked at, too; that step is slower.
    const bool watches = operand_columns && (step % settings.metrics.log_period == 0 || step + 1 == steps);
    engine.set_watch(watches ? &operands : nullptr);
    const StepReport report = engine.step(source.next(), step, learning_rate);
    ++result.steps;
    if (report.skipped) log::warning("Step {} has no valid target: nothing was changed.", step);
    const double seconds = seconds_since(begin);
    Row row = row_of(report, engine, learning_rate);
    add_speed(row, settings, sequences, seconds, at_peak);
    if (watches) operands.take(row);
    if (operand_columns && step == 0 && report.skipped) {  // the first row names the columns of metrics.csv
      operand_columns = false;
      log::warning("The first step has no valid target, so nothing was quantized in it: quantization_stats is off in this run.");
    }
    metrics.step(step, row);
    if (!report.skipped && trained++ > 0) speeds.push_back(tokens / seconds);

    const bool last = step + 1 == steps;
    if (!last && (interval <= 0 || (step + 1) % interval != 0)) continue;
    const Row held_out = evaluate(settings, dataset, engine);
    if (held_out.empty()) continue;
    metrics.evaluation(step, held_out);
    result.eval_loss = value_of(held_out, "eval/avg_loss");
  }
  result.stopped_by = StopSignal::received();
  if (!speeds.empty()) {
    std::nth_element(speeds.begin(), speeds.begin() + static_cast<long>(speeds.size() / 2), speeds.end());
    result.tokens_per_second = speeds[speeds.size() / 2];
  }
  metrics.flush();
  if (trained == 0 && result.stopped_by == 0) fail("None of the {} steps had a valid target: nothing was trained.", result.steps);
  return result;
}

}  // namespace kvant::train
