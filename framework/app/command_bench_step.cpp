// kvant bench step: one training step, timed. Alone it alternates between the plain model and the same model under the
// configuration's scheme and prints their ratio; with --serve it answers another program that alternates between peers.
#include "app/bench.hpp"
#include "app/kernel_profile.hpp"
#include "app/peer_model.hpp"
#include "app/run_setup.hpp"
#include "base/error.hpp"
#include "kernels/isa/isa.hpp"
#include "quant/plan.hpp"
#include "train/engine.hpp"
#include "train/flops.hpp"
#include "train/runtime.hpp"
#include "train/speed_of_light.hpp"

#include <fmt/format.h>
#include <nlohmann/json.hpp>
#include <sys/resource.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <iostream>
#include <memory>

namespace kvant::app {
namespace {

struct Arguments {
  ConfigArguments config;
  std::string parameters;
  bool serve = false, profile = false;
  int warmup = 2, rounds = 9, threads = 0;
};

/// A model that steps over one fixed batch.
class Stepper {
 public:
  Stepper(const config::Settings& settings, const Arguments& arguments, train::Runtime& runtime) : settings_(settings) {
    auto model = make_model(settings.model);
    quant::Plan::bind(model->sites(), settings);
    engine_ = std::make_unique<train::Engine>(settings, std::move(model), runtime.exec(), runtime.world());
    engine_->allocate();
    if (!arguments.parameters.empty()) load_peer_parameters(arguments.parameters, engine_->model(), runtime.exec());
    batch_ = peer_batch(settings.model.vocab_size, config::sequences_per_step(settings.data), settings.model.max_target_length, 0);
    at_peak_ = train::seconds_at_peak(engine_->model().sites(), static_cast<double>(batch_.batch * batch_.seq), runtime.threads());
  }
  /// Seconds of one step.
  double step() {
    const auto begin = std::chrono::steady_clock::now();
    loss_ = engine_->step({&batch_, 1}, count_++, settings_.optimizer.learning_rate).losses.total;
    return std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
  }
  double loss() const { return loss_; }
  double at_peak() const { return at_peak_; }
  train::Engine& engine() { return *engine_; }
  int64_t tokens() const { return batch_.batch * batch_.seq; }

 private:
  config::Settings settings_;
  std::unique_ptr<train::Engine> engine_;
  data::Batch batch_;
  int64_t count_ = 0;
  double loss_ = 0, at_peak_ = 0;
};

double peak_mib() {
  rusage usage{};
  getrusage(RUSAGE_SELF, &usage);
  return static_cast<double>(usage.ru_maxrss) / 1024.0;
}

/// The protocol: a line with "ready", then for each line `run N` the seconds of N steps, until `quit`.
int serve(Stepper& stepper, const config::Settings& settings, int warmup) {
  double first = 0;
  for (int i = 0; i < warmup; ++i) {
    stepper.step();
    if (i == 0) first = stepper.loss();
  }
  nlohmann::json ready = {{"ready", true}, {"peer", "kvant"}, {"isa", name_of(chosen_isa())}, {"quant", settings.quant.quantization},
                          {"params", stepper.engine().model().params().count()}, {"loss_first", first}};
  std::cout << ready.dump() << std::endl;
  for (std::string text; std::getline(std::cin, text) && text != "quit";) {
    int steps = 0;
    char rest = 0;
    if (std::sscanf(text.c_str(), "run %9d %c", &steps, &rest) != 1 || steps < 1 || steps > 100000)
      refuse("bench step --serve understands `run N` with N from 1 to 100000, and `quit`; it was told \"{}\".", text);
    std::vector<double> seconds;
    for (int i = 0; i < steps; ++i) seconds.push_back(stepper.step());
    const nlohmann::json answer = {{"seconds", seconds}, {"loss", stepper.loss()}, {"peak_rss_mib", static_cast<int64_t>(peak_mib())}};
    std::cout << answer.dump() << std::endl;
  }
  return 0;
}

double quantile(std::vector<double> v, double q) {
  std::sort(v.begin(), v.end());
  return v[std::min(v.size() - 1, static_cast<std::size_t>(q * static_cast<double>(v.size())))];
}

void line(const char* name, const Stepper& s, const std::vector<double>& seconds, const std::vector<double>& ratio) {
  const double median = quantile(seconds, 0.5);
  fmt::print("{:<14} {:9.1f} ms/step {:8.0f} tokens/s   sol {:.2f}   speed {:.2f} ({:.2f}-{:.2f})   loss {:.6f}\n", name, 1e3 * median,
             static_cast<double>(s.tokens()) / median, s.at_peak() / median, quantile(ratio, 0.5), quantile(ratio, 0.1), quantile(ratio, 0.9), s.loss());
}

void profile(const char* name, Stepper& stepper, int steps) {
  const KernelProfile kernels;
  double seconds = 0;
  for (int i = 0; i < steps; ++i) seconds += stepper.step();
  fmt::print("\n{}: {:.1f} ms/step, kernels by time\n{}", name, 1e3 * seconds / steps, kernels.table(steps, seconds));
}

int run(const Arguments& arguments) {
  RunSetup setup = read_run(arguments.config);
  train::Runtime runtime(arguments.threads);
  setup.load_plugins();
  const config::Settings& settings = setup.settings;
  Stepper stepper(settings, arguments, runtime);
  if (arguments.serve) return serve(stepper, settings, arguments.warmup);

  config::Settings plain_settings = settings;
  plain_settings.quant.quantization.clear();
  Stepper plain(plain_settings, arguments, runtime);
  const bool quantized = !settings.quant.quantization.empty();
  fmt::print("{}\n{} parameters, {:.1f} GFLOP a step by the reference's formula; {} rounds, median (p10-p90) of the ratios within a round\n",
             runtime.describe(), plain.engine().model().params().count(),
             train::training_flops(settings.model, static_cast<double>(config::sequences_per_step(settings.data))).total() / 1e9, arguments.rounds);
  for (int i = 0; i < arguments.warmup; ++i) {
    plain.step();
    if (quantized) stepper.step();
  }
  std::vector<double> a, b, ones, ratio;
  for (int round = 0; round < arguments.rounds; ++round) {
    a.push_back(plain.step());
    ones.push_back(1.0);
    if (!quantized) continue;
    b.push_back(stepper.step());
    ratio.push_back(a.back() / b.back());
  }
  line("plain", plain, a, ones);
  if (quantized) line(settings.quant.quantization.c_str(), stepper, b, ratio);
  if (arguments.profile) {
    profile("plain", plain, 3);
    if (quantized) profile(settings.quant.quantization.c_str(), stepper, 3);
  }
  fmt::print("peak memory of the process {:.0f} MiB\n", peak_mib());
  return 0;
}

}  // namespace

void add_bench_step(CLI::App& bench, Context& context) {
  CLI::App* command = bench.add_subcommand("step", "one training step: the plain model against the configuration's scheme");
  auto arguments = std::make_shared<Arguments>();
  add_config_arguments(*command, arguments->config);
  refuse_empty(command->add_option("--load-init", arguments->parameters, "initial parameters from a .npz file (PyTorch names)"), "a .npz file");
  command->add_flag("--serve", arguments->serve, "answer `run N` lines on stdin, to be alternated with other programs");
  command->add_flag("--profile", arguments->profile, "print where the time goes, kernel by kernel");
  command->add_option("--warmup", arguments->warmup, "steps before the first timed one")->check(CLI::Range(1, 1000));
  command->add_option("--rounds", arguments->rounds, "timed steps of each")->check(CLI::Range(1, 100000));
  command->add_option("--threads", arguments->threads, "threads (0: OMP_NUM_THREADS, or the machine's)")->check(CLI::Range(0, 1024));
  add_examples(*command, {"kvant bench step configs/bench/tiny.toml --set quant.quantization=int8_full",
                          "kvant bench step configs/bench/bench.toml --serve --load-init init.npz"});
  command->callback([arguments, &context] { context.run = [arguments] { return run(*arguments); }; });
}

}  // namespace kvant::app
