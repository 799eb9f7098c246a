// What commands share in their options and help.
#include "app/command.hpp"

namespace kvant::app {

void add_config_arguments(CLI::App& subcommand, ConfigArguments& arguments) {
  CLI::Option* config = subcommand.add_option("CONFIG,--config", arguments.file,
                                              "the configuration, a TOML file (docs/configuration.md lists every key)");
  refuse_empty(config->required(), "a TOML file");
  subcommand
      .add_option(
          "--set", arguments.overrides,
          "one key of the configuration: section.key=value; TOML, or a bare word for a string; may be given again")
      ->type_name("KEY=VALUE")
      ->allow_extra_args(false);
}

void refuse_empty(CLI::Option* option, const std::string& expected) {
  option->check([expected](const std::string& value) {
    return value.empty() ? "the value is empty; " + expected + " is expected" : std::string();
  });
}

void add_examples(CLI::App& subcommand, const std::vector<std::string>& lines) {
  std::string text = "Examples:";
  for (const std::string& line : lines) text += "\n  " + line;
  subcommand.footer(text);
}

}  // namespace kvant::app
