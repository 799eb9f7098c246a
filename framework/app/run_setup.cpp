#include "app/run_setup.hpp"

#include "plugin/loader.hpp"

namespace kvant::app {

RunSetup read_run(const ConfigArguments& arguments) {
  config::Document document = config::Document::read(arguments.file, arguments.overrides);
  const config::Settings settings = config::read_settings(document);
  return {std::move(document), settings};
}

void RunSetup::load_plugins() {
  for (const std::string& name : settings.run.plugins) plugin::load(name);
  quant::configure_plugins(document, settings.quant);
  document.finish();
  config::check(settings);
}

}  // namespace kvant::app
