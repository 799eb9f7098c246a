// The commands of the program, in the order in which --help shows them. A new one is a file app/command_<name>.cpp, a
// line here and a line in commands.cpp.
#pragma once

#include "app/command.hpp"

namespace kvant::app {

void add_train(CLI::App& app, Context& context);
void add_eval(CLI::App& app, Context& context);
void add_explain(CLI::App& app, Context& context);
void add_plugins(CLI::App& app, Context& context);
void add_data(CLI::App& app, Context& context);
void add_bench(CLI::App& app, Context& context);
void add_verify(CLI::App& app, Context& context);

void add_commands(CLI::App& app, Context& context);

}  // namespace kvant::app
