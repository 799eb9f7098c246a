// kvant eval CONFIG --params FILE: the held-out loss of weights that a run has left.
#include "app/command.hpp"
#include "app/run_setup.hpp"
#include "base/log.hpp"
#include "train/parameters_file.hpp"
#include "train/trainer.hpp"

#include <fmt/format.h>

#include <memory>

namespace kvant::app {
namespace {

struct Arguments {
  ConfigArguments config;
  std::string parameters;
};

int run(const Arguments& arguments) {
  RunSetup setup = read_run(arguments.config);
  train::Runtime runtime;
  setup.load_plugins();
  const std::unique_ptr<data::Dataset> dataset = setup.make_dataset();
  if (dataset->eval_rows() == 0) refuse("Nothing is held out: data.eval_fraction is 0.");
  auto model = make_model(setup.settings.model);
  const quant::Plan plan = quant::Plan::bind(model->sites(), setup.settings);
  if (const MatmulSite* site = plan.remembers_ranges())
    refuse("{} takes its ranges from earlier steps, and a file of weights has none of them: evaluate with a [quant] that measures, such as "
           "--set quant.quantization=fp8_full, or \"\".",
           site->path);
  train::Engine engine(setup.settings, std::move(model), runtime.exec(), runtime.world());
  engine.allocate();
  train::load_parameters(arguments.parameters, engine.model(), runtime.exec());
  runtime.log_description();
  log::info("{}", dataset->describe());
  const train::Row row = train::evaluate(setup.settings, *dataset, engine);
  if (row.empty()) refuse("The held-out part has no valid target, or metrics.eval_steps is 0.");
  for (const auto& [name, value] : row) fmt::print("{:<24} {:.6f}\n", name, value);
  return 0;
}

}  // namespace

void add_eval(CLI::App& app, Context& context) {
  CLI::App* command = app.add_subcommand("eval", "held-out loss of the weights that a run has left");
  auto arguments = std::make_shared<Arguments>();
  add_config_arguments(*command, arguments->config);
  refuse_empty(command->add_option("--params", arguments->parameters, "weights (parameters.safetensors of a run folder)")->required(), "a file of weights");
  add_examples(*command, {"kvant eval configs/quickstart.toml --params runs/0001/parameters.safetensors",
                          "kvant eval runs/0001/config.toml --params runs/0001/parameters.safetensors --set metrics.eval_steps=-1"});
  command->callback([arguments, &context] { context.run = [arguments] { return run(*arguments); }; });
}

}  // namespace kvant::app
