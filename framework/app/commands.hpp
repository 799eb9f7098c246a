// The commands of the program, in the order in which --help shows them. A new one is a file app/command_<name>.cpp, a line
// here and a line in commands.cpp.
#pragma once

#include "app/command.hpp"

namespace kvant::app {

// Weak while the rooms are being furnished: a command whose file is not there is not offered.
#define KVANT_COMMAND(name) [[gnu::weak]] void add_##name(CLI::App& app, Context& context)
KVANT_COMMAND(train);
KVANT_COMMAND(eval);
KVANT_COMMAND(explain);
KVANT_COMMAND(plugins);
KVANT_COMMAND(data);
KVANT_COMMAND(bench);
KVANT_COMMAND(verify);
#undef KVANT_COMMAND

void add_commands(CLI::App& app, Context& context);

}  // namespace kvant::app
