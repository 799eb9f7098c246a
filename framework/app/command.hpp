// Room app: the composition root and the command line. One file per command, app/command_<name>.cpp, which defines
// `void add_<name>(CLI::App& app, Context& context)` and is declared and registered in commands.hpp and commands.cpp.
#pragma once

#include <CLI/CLI.hpp>

#include <functional>
#include <string>
#include <vector>

namespace kvant::app {

/// What the commands share. A command's add_ function hangs options on its subcommand and sets `run` in the
/// subcommand's callback; main runs it after the command line is parsed, so that an error in the command line never
/// starts MPI or Kokkos. What `run` returns is the exit code; what it throws becomes one sentence and its exit code.
struct Context {
  std::vector<std::string> arguments;  ///< argv without the program's name
  std::function<int()> run;            ///< the chosen command
};

/// A configuration as given on the command line: the file and its --set overrides.
struct ConfigArguments {
  std::string file;
  std::vector<std::string> overrides;  ///< each "section.key=value"
};

/// Adds CONFIG (positional, required) and --set to a subcommand.
void add_config_arguments(CLI::App& subcommand, ConfigArguments& arguments);

/// Refuses an option that is given as an empty text, which would count as not given or name nothing; `expected`: "a folder".
void refuse_empty(CLI::Option* option, const std::string& expected);

/// Adds the examples that `--help` shows at its end, one line each.
void add_examples(CLI::App& subcommand, const std::vector<std::string>& lines);

}  // namespace kvant::app
