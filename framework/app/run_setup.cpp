#include "app/run_setup.hpp"

#include "base/error.hpp"
#include "base/log.hpp"
#include "config/idle.hpp"
#include "config/locate.hpp"
#include "plugin/loader.hpp"

namespace kvant::app {

namespace {

RunSetup read(const ConfigArguments& arguments) {
  config::Document document = config::Document::read(arguments.file, arguments.overrides);
  const config::Settings settings = config::read_settings(document);
  document.finish_outside("quant.plugins");
  for (const std::string& sentence : config::find_idle(settings, document)) log::warning("{}", sentence);
  return {std::move(document), settings};
}

}  // namespace

RunSetup read_model(const ConfigArguments& arguments) {
  RunSetup setup = read(arguments);
  config::check_model(setup.settings, &setup.document);
  return setup;
}

RunSetup read_run(const ConfigArguments& arguments) {
  RunSetup setup = read(arguments);
  config::check(setup.settings, &setup.document);
  return setup;
}

void RunSetup::load_plugins() {
  for (const std::string& name : settings.run.plugins) plugin::load(name);
  quant::configure_plugins(document, settings.quant);
  document.finish();
}

std::unique_ptr<data::Dataset> RunSetup::make_dataset() const {
  try {
    return data::make_dataset(settings);
  } catch (const UsageError& error) {
    throw UsageError(config::located(document, error.what()));
  }
}

}  // namespace kvant::app
