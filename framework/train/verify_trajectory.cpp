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
  const std::size_t loss = column(file, "loss"), columns = recorded.size() / static_cast<std::size_t>(std::max<int64_t>(steps, 1));
  const json gaps = json::parse(file.metadata("jitter_gap." + scheme), nullptr, false);
  if (steps < 6 || columns * static_cast<std::size_t>(steps) != recorded.size() || loss >= columns || !gaps.is_array() || gaps.size() != 3 ||
      !std::all_of(gaps.begin(), gaps.end(), [](const json& g) { return g.is_number() && g.get<double>() >= 0 && g.get<double>() < 0.1; }))
    fail("{}: the metrics or the jitter gaps of {} are not those of {} steps (three gaps below 0.1).", file.path(), scheme, steps);

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

  // The reference's gaps are of losses near 7, whose last place is 4.8e-7: a gap of a few of them is no gap.
  constexpr double rounding = 4 * 4.8e-7;
  const std::array<int64_t, 3> until = {steps / 6, steps / 2, steps};
  double largest = 0;
  std::size_t part = 0;
  for (int64_t step = 0; step < steps; ++step) {
    const data::Batch batch = batch_at(tokens, step, rows, seq);
    const StepReport report = engine.step({&batch, 1}, step, optim::learning_rate(settings.optimizer, settings.run.steps, step));
    const double gap = std::abs(report.losses.total - static_cast<double>(recorded[static_cast<std::size_t>(step) * columns + loss]));
    largest = std::isnan(gap) ? gap : std::max(largest, gap);
    if (part < until.size() && step + 1 == until[part]) {
      result.comparisons.push_back({fmt::format("{}/loss of {} steps", scheme, step + 1), "largest difference", largest, 3 * gaps[part].get<double>() + rounding});
      ++part;
    }
  }
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
    if (!scheme.ends_with(".jitter1e-6")) follow(file, scheme, exec, world, result);  // the jittered twin is where the gaps come from
  }
  return result;
}

}  // namespace kvant::train
