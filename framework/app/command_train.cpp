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
#include <memory>

namespace kvant::app {
namespace {

struct Arguments {
  ConfigArguments config;
  std::string run_dir;
};

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
  fmt::print("\nNext:\n  ./kvant explain {}            what runs quantized, and why the rest does not\n", arguments.config.file);
  fmt::print("  ./kvant train {} --set quant.quantization=\"\"    the same run in plain float, to compare\n", arguments.config.file);
  fmt::print("  ./kvant train {} --set run.steps={}    a longer one\n", arguments.config.file, 4 * setup.settings.run.steps);
}

int run(const Arguments& arguments) {
  // Everything that can be refused is refused before a folder is made.
  RunSetup setup = read_run(arguments.config);
  train::Runtime runtime;
  setup.load_plugins();
  const std::unique_ptr<data::Dataset> dataset = data::make_dataset(setup.settings);
  auto model = make_model(setup.settings.model);
  const quant::Plan plan = quant::Plan::bind(model->sites(), setup.settings);

  const train::RunFolder folder = train::RunFolder::create(arguments.run_dir);
  folder.write("config.toml", setup.document.resolved());
  log::configure(log::Level::info, (folder.path() / "run.log").string());
  log::info("{}", runtime.describe());
  log::info("{}", dataset->describe());
  log::info("{} parameters; {} of {} matmul sites quantized", model->params().count(), plan.quantized_count(), plan.decisions().size());
  folder.write("sites.txt", plan.table());
  log::write_to_file(plan.table());

  train::Engine engine(setup.settings, std::move(model), runtime.exec(), runtime.world());
  engine.allocate();
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
  command->add_option("--run-dir", arguments->run_dir, "folder for metrics and configuration (default: the next number under runs/)");
  add_examples(*command, {"kvant train configs/quickstart.toml", "kvant train configs/quickstart.toml --set run.steps=1000 --run-dir runs/long",
                          "kvant train configs/quickstart.toml --set quant.quantization=fp8_full"});
  command->callback([arguments, &context] { context.run = [arguments] { return run(*arguments); }; });
}

}  // namespace kvant::app
