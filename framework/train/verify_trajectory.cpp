#include "train/verify_trajectory.hpp"

#include "base/error.hpp"
#include "optim/schedule.hpp"
#include "quant/plan.hpp"
#include "train/detail/recorded_model.hpp"
#include "train/engine.hpp"
#include "train/parameters_file.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>

namespace kvant::train {
namespace {

using data::SafetensorsFile;
using nlohmann::json;

constexpr std::string_view metrics_suffix = "/metrics";
constexpr std::string_view twin_suffix = ".jitter1e-6";  ///< the reference again, from first weights that were moved by 1e-6 of their size
constexpr std::size_t parts = 3;                         ///< the first sixth, the first half, all of the steps

/// The larger one; a NaN stays.
double worse(double a, double b) { return std::isnan(a) || a > b ? a : b; }

/// Optimizer and steps as TOML.
std::string optimizer_text(const SafetensorsFile& file) {
  std::string text = "[optimizer]\n", run;
  const json given = detail::metadata_object(file, "optimizer");
  for (const auto& [key, value] : given.items()) {
    if (key == "steps")
      run = fmt::format("[run]\nsteps = {}\n", value.dump());
    else
      text += key + " = " + value.dump() + "\n";
  }
  if (run.empty()) refuse("{}: the metadata \"optimizer\" has no steps.", file.path());
  return text + run;
}

/// Row `step` of tokens [steps, batch, seq + 1]: one document in each row.
data::Batch batch_at(const std::vector<int32_t>& tokens, int64_t step, int64_t rows, int64_t seq) {
  data::Batch b;
  b.clear(rows, seq);
  for (int64_t r = 0; r < rows; ++r)
    for (int64_t s = 0; s < seq; ++s) {
      const auto to = static_cast<std::size_t>(r * seq + s);
      const auto from = static_cast<std::size_t>((step * rows + r) * (seq + 1) + s);
      b.inputs[to] = tokens[from];
      b.targets[to] = tokens[from + 1];
      b.inputs_position[to] = b.targets_position[to] = static_cast<int32_t>(s);
      b.inputs_segmentation[to] = b.targets_segmentation[to] = 1;
    }
  b.valid_targets = rows * seq;
  return b;
}

/// Where a column of the metrics is.
std::size_t column(const SafetensorsFile& file, const std::string& name) {
  const json columns = json::parse(file.metadata("columns"), nullptr, false);
  for (std::size_t i = 0; columns.is_array() && i < columns.size(); ++i)
    if (columns[i] == name) return i;
  fail("{}: the metadata \"columns\" has no {}.", file.path(), name);
}

void follow(const SafetensorsFile& file, const std::string& scheme, const Exec& exec, comm::Communicator& world, Verification& result) {
  const auto& shape = file.tensor("tokens").shape;
  if (shape.size() != 3 || shape[2] < 2) fail("{}: tokens are not [steps, batch, positions + 1].", file.path());
  const int64_t steps = shape[0], rows = shape[1], seq = shape[2] - 1;
  const std::vector<int32_t> tokens = file.read_integers("tokens");
  const std::vector<float> recorded = file.read_floats(scheme + std::string(metrics_suffix));
  const std::vector<float> twin = file.read_floats(scheme + std::string(twin_suffix) + std::string(metrics_suffix));
  const std::size_t loss = column(file, "loss"), rate = column(file, "lr_used");
  const std::size_t columns = recorded.size() / static_cast<std::size_t>(std::max<int64_t>(steps, 1));
  const json gaps = json::parse(file.metadata("jitter_gap." + scheme), nullptr, false);
  if (steps < 6 || columns * static_cast<std::size_t>(steps) != recorded.size() || twin.size() != recorded.size() || std::max(loss, rate) >= columns ||
      !gaps.is_array() || gaps.size() != parts || !std::all_of(gaps.begin(), gaps.end(), [](const json& g) { return g.is_number(); }))
    fail("{}: the metrics, their twin or the jitter gaps of {} are not those of {} steps.", file.path(), scheme, steps);
  const auto at = [&](const std::vector<float>& metrics, int64_t step, std::size_t c) {
    return static_cast<double>(metrics[static_cast<std::size_t>(step) * columns + c]);
  };

  const SafetensorsFile weights(detail::weights_beside(file));
  json config = detail::metadata_object(weights, "config");
  const json extra = detail::metadata_object(file, "extra");
  for (const auto& [key, value] : extra.items()) config[key] = value;
  if (scheme != "none") config["quantization"] = scheme, config["use_qwix_quantization"] = true;
  const config::Settings settings = detail::settings_from(weights, config, file.metadata("qwix_compat"), rows, optimizer_text(file));
  auto model = make_model(settings.model);
  quant::Plan::bind(model->sites(), settings);
  Engine engine(settings, std::move(model), exec, world);
  engine.allocate();
  load_parameters(weights.path(), engine.model(), exec);

  const std::array<int64_t, parts> until = {steps / 6, steps / 2, steps};
  double largest = 0, own = 0, rates = 0;
  std::size_t part = 0;
  for (int64_t step = 0; step < steps; ++step) {
    const data::Batch batch = batch_at(tokens, step, rows, seq);
    const double learning_rate = optim::learning_rate(settings.optimizer, settings.run.steps, step);
    const StepReport report = engine.step({&batch, 1}, step, learning_rate);
    largest = worse(largest, std::abs(report.losses.total - at(recorded, step, loss)));
    own = worse(own, std::abs(at(twin, step, loss) - at(recorded, step, loss)));
    rates = worse(rates, std::abs(learning_rate - at(recorded, step, rate)));
    if (part == parts || step + 1 != until[part]) continue;
    if (!(std::abs(own - gaps[part].get<double>()) <= 1e-6 * own)) fail("{}: the jitter gaps of {} are not those of its metrics.", file.path(), scheme);
    result.comparisons.push_back({fmt::format("{}/loss of {} steps", scheme, step + 1), "largest difference", largest, 3 * own});
    ++part;
  }
  // The reference computes its schedule in float32.
  result.comparisons.push_back({scheme + "/learning rate", "largest difference", rates, 1e-6 * settings.optimizer.learning_rate});
  for (const nn::Param* p : engine.model().params().all()) {
    const std::string name = scheme + "/final/" + p->path;
    if (!file.has(name)) continue;
    const std::vector<float> got = detail::floats_of(exec, p->value), want = file.read_floats(name);
    if (got.size() != want.size()) fail("{}: {} has {} elements; the model has {}.", file.path(), name, want.size(), got.size());
    double difference = 0, norm = 0;
    for (std::size_t i = 0; i < got.size(); ++i) {
      difference += std::pow(static_cast<double>(got[i]) - static_cast<double>(want[i]), 2);
      norm += std::pow(static_cast<double>(want[i]), 2);
    }
    // As gradients in float32: Adam divides them by their own size, and most of a weight is what it began as.
    result.comparisons.push_back({name, "relative norm", std::sqrt(difference / std::max(norm, 1e-30)), 1e-5});
  }
}

}  // namespace

Verification verify_trajectory(const SafetensorsFile& file, const Exec& exec, comm::Communicator& world) {
  Verification result{file.path(), {}, {}, {}};
  for (const data::StoredTensor& t : file.tensors()) {
    if (!t.name.ends_with(metrics_suffix)) {
      const std::string scheme = t.name.substr(0, t.name.find("/final/"));
      if (t.name != "tokens" && !file.has(scheme + std::string(metrics_suffix))) result.not_compared.push_back(t.name);
      continue;
    }
    const std::string scheme = t.name.substr(0, t.name.size() - metrics_suffix.size());
    if (!scheme.ends_with(twin_suffix)) follow(file, scheme, exec, world, result);
  }
  return result;
}

}  // namespace kvant::train
