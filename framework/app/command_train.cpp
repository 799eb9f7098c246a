// kvant train CONFIG: a run, from the configuration to the last line that says what came of it.
#include "app/command.hpp"
#include "app/run_setup.hpp"
#include "base/error.hpp"
#include "base/log.hpp"
#include "train/parameters_file.hpp"
#include "train/trainer.hpp"

#include <fmt/format.h>

#include <cmath>
#include <csignal>
#include <cstdlib>
#include <memory>

namespace kvant::app {
namespace {

struct Arguments {
  ConfigArguments config;
  std::string run_dir;
};

std::string quoted(const std::string& word) {
  if (word.find_first_not_of("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-+=./:,@%") == std::string::npos && !word.empty()) return word;
  std::string out = "'";
  for (const char c : word) out += c == '\'' ? "'\\''" : std::string(1, c);
  return out + "'";
}

void say_result(const train::RunResult& result, const RunSetup& setup, const Arguments& arguments, const std::string& folder) {
  fmt::print("\n");
  if (result.stopped_by != 0)
    fmt::print("Stopped by signal {} after step {} of {}; the metrics are complete up to there.\n", result.stopped_by, result.steps, setup.settings.run.steps);
  if (std::isfinite(result.eval_loss))
    fmt::print("validation loss  {:.4f} (perplexity {:.2f})\n", result.eval_loss, std::exp(result.eval_loss));
  fmt::print("throughput       {:.0f} tokens/s (median step)\n", result.tokens_per_second);
  fmt::print("metrics          {0}/metrics.jsonl, {0}/metrics.csv\n", folder);
  fmt::print("configuration    {}/config.toml (as it was read, defaults included)\n", folder);
  fmt::print("weights          {}/parameters.safetensors (for kvant eval; a run cannot be resumed from it)\n", folder);
  if (result.stopped_by != 0) return;
  // As it was called: the file and the overrides, quoted where a shell would split them.
  std::string same = quoted(arguments.config.file);
  for (const std::string& text : arguments.config.overrides) same += " --set " + quoted(text);
  const char* program = std::getenv("KVANT_ROOT") == nullptr ? "kvant" : "./kvant";  // the script sets it
  fmt::print("\nNext:\n  {} explain {}\n      what runs quantized, and why the rest does not\n", program, same);
  if (!setup.settings.quant.quantization.empty())
    fmt::print("  {} train {} --set quant.quantization=\"\"\n      the same run in plain float, to compare\n", program, same);
  fmt::print("  {} train {} --set run.steps={}\n      a longer one\n", program, same, 4 * setup.settings.run.steps);
}

/// Weights, and rows of about 100 bytes a number in metrics.jsonl and metrics.csv together.
uint64_t bytes_of_run(Model& model, const config::Settings& settings) {
  const int64_t numbers = 40 + settings.model.num_experts * (settings.model.num_moe_layers() + settings.model.mtp_num_layers);
  return static_cast<uint64_t>(4 * model.params().count() + 100 * numbers * settings.run.steps) + (uint64_t{1} << 20);
}

/// Before the first step there is nothing to keep: a signal ends the run here, in a sentence.
void stop_if_asked(const char* when) {
  if (const int number = train::StopSignal::received(); number != 0)
    throw Error(fmt::format("stopped by signal {} {}; nothing was trained.", number, when), ExitCode::interrupted);
}

int run(const Arguments& arguments) {
  // Everything that can be refused, and the memory that is not to be had, is told before a folder is made.
  RunSetup setup = read_run(arguments.config);
  train::Runtime runtime;
  const train::StopSignal signals;
  setup.load_plugins();
  const std::unique_ptr<data::Dataset> dataset = setup.make_dataset();
  stop_if_asked("while the text was read");
  auto model = make_model(setup.settings.model);
  const quant::Plan plan = quant::Plan::bind(model->sites(), setup.settings);

  train::Engine engine(setup.settings, std::move(model), runtime.exec(), runtime.world());
  const uint64_t bytes = bytes_of_run(engine.model(), setup.settings);
  train::RunFolder::check(arguments.run_dir, "runs", bytes);
  engine.allocate();
  stop_if_asked("before the first step");

  const train::RunFolder folder = train::RunFolder::create(arguments.run_dir, "runs", bytes);
  folder.write("config.toml", setup.document.resolved());
  log::configure(log::Level::info, (folder.path() / "run.log").string());
  runtime.log_description();
  log::info("{}", dataset->describe());
  log::info("{} parameters; {} of {} matmul sites quantized", engine.model().params().count(), plan.quantized_count(), plan.decisions().size());
  folder.write("sites.txt", plan.table());
  log::write_to_file(plan.table());

  train::MetricsWriter metrics(folder, setup.settings.run.steps, setup.settings.metrics.log_period);
  const train::RunResult result = train::train(setup.settings, *dataset, engine, runtime, metrics);
  train::save_parameters((folder.path() / "parameters.safetensors").string(), engine.model(), runtime.exec());
  say_result(result, setup, arguments, folder.path().string());
  return static_cast<int>(result.stopped_by == 0 ? ExitCode::success : ExitCode::interrupted);
}

}  // namespace

void add_train(CLI::App& app, Context& context) {
  CLI::App* command = app.add_subcommand("train", "train a model as a configuration says");
  auto arguments = std::make_shared<Arguments>();
  add_config_arguments(*command, arguments->config);
  refuse_empty(command->add_option("--run-dir", arguments->run_dir, "folder for metrics and configuration (default: the next number under runs/)"), "a folder");
  add_examples(*command, {"kvant train configs/quickstart.toml", "kvant train configs/quickstart.toml --set run.steps=1000 --run-dir runs/long",
                          "kvant train configs/quickstart.toml --set quant.quantization=fp8_full"});
  command->callback([arguments, &context] { context.run = [arguments] { return run(*arguments); }; });
}

}  // namespace kvant::app
