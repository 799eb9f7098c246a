// kvant data CONFIG: what a run of this configuration would train on.
#include "app/command.hpp"
#include "app/run_setup.hpp"
#include "data/report.hpp"
#include "train/runtime.hpp"

#include <fmt/format.h>

#include <memory>

namespace kvant::app {
namespace {

struct Arguments {
  ConfigArguments config;
  int64_t rows = 2;
};

int run(const Arguments& arguments) {
  RunSetup setup = read_run(arguments.config);
  const train::Runtime runtime;  // plugins are loaded, so that their sections are checked as every command checks them
  setup.load_plugins();
  fmt::print("{}", data::report(*setup.make_dataset(), arguments.rows));
  return 0;
}

}  // namespace

void add_data(CLI::App& app, Context& context) {
  CLI::App* command =
      app.add_subcommand("data", "what a configuration's text holds: documents, tokens, where they end, rows");
  auto arguments = std::make_shared<Arguments>();
  add_config_arguments(*command, arguments->config);
  command->add_option("--rows", arguments->rows, "rows to show as text (default: 2)")->check(CLI::Range(0, 1000));
  add_examples(*command, {"kvant data configs/quickstart.toml",
                          "kvant data configs/quickstart.toml --rows 10 --set data.packing_type=concat_then_split"});
  command->callback([arguments, &context] { context.run = [arguments] { return run(*arguments); }; });
}

}  // namespace kvant::app
