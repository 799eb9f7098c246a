// kvant explain CONFIG: for every matmul site of the model what it would run in, or why it stays plain. Nothing is
// allocated or trained.
#include "app/command.hpp"
#include "app/run_setup.hpp"
#include "models/model.hpp"
#include "train/runtime.hpp"

#include <fmt/format.h>

#include <memory>

namespace kvant::app {
namespace {

struct Arguments {
  ConfigArguments config;
  bool json = false, log = false;
};

int run(const Arguments& arguments) {
  RunSetup setup = read_model(arguments.config);
  const train::Runtime runtime;
  setup.load_plugins();
  const std::unique_ptr<Model> model = make_model(setup.settings.model);
  const quant::Plan plan = quant::Plan::resolve(model->sites(), setup.settings.quant);
  // stdout is the answer alone; everything else goes to the log on stderr.
  if (arguments.json)
    fmt::print("{}\n", plan.json());
  else
    fmt::print("{}", arguments.log ? plan.log_lines() : plan.table());
  return 0;
}

}  // namespace

void add_explain(CLI::App& app, Context& context) {
  CLI::App* command =
      app.add_subcommand("explain", "show for every matrix product of a model what it runs in, or why it stays plain");
  auto arguments = std::make_shared<Arguments>();
  add_config_arguments(*command, arguments->config);
  CLI::Option* json = command->add_flag(
      "--json", arguments->json,
      "JSON: \"sites\" (path, op, layer, rule, weight, act, grad_input, grad_weight, arms, reason, flops_share), "
      "\"settings_that_mattered\", \"unsupported\"");
  command
      ->add_flag("--log", arguments->log,
                 "one line for each product in the order of the forward pass, as the reference logs its lookups: "
                 "module='…' op=dot_general0 rule=0")
      ->excludes(json);
  add_examples(*command,
               {"kvant explain configs/quickstart.toml",
                "kvant explain configs/quickstart.toml --set quant.quantization=fp8_full",
                "kvant explain configs/quickstart.toml --log",
                "kvant explain configs/quickstart.toml --json | jq '.sites[] | select(.weight == null) | .reason'"});
  command->callback([arguments, &context] { context.run = [arguments] { return run(*arguments); }; });
}

}  // namespace kvant::app
