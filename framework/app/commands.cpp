#include "app/commands.hpp"

namespace kvant::app {

void add_commands(CLI::App& app, Context& context) {
  for (auto* add : {add_train, add_eval, add_explain, add_plugins, add_data, add_bench, add_verify}) add(app, context);
}

}  // namespace kvant::app
