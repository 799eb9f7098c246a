#include "app/run_setup.hpp"

#include "base/error.hpp"
#include "base/log.hpp"
#include "config/idle.hpp"
#include "config/locate.hpp"
#include "config/suggest.hpp"
#include "plugin/loader.hpp"

#include <algorithm>

namespace kvant::app {

namespace {

RunSetup read(const ConfigArguments& arguments) {
  config::Document document = config::Document::read(arguments.file, arguments.overrides);
  const config::Settings settings = config::read_settings(document);
  document.finish_outside("quant.plugins");
  for (const std::string& sentence : config::find_idle(settings, document)) log::warning("{}", sentence);
  return {std::move(document), settings};
}

bool is_offered(plugin::Kind kind, const std::string& name) {
  const auto offers = [&](const plugin::Info& info) { return info.offers(kind, name); };
  return std::ranges::any_of(plugin::loaded(), offers) || std::ranges::any_of(plugin::available(), offers);
}

/// "" if there is nothing of this name.
std::string why_unread(const std::string& name) {
  if (is_offered(plugin::Kind::scheme, name)) return fmt::format("the scheme '{}' is not in use", name);
  if (is_offered(plugin::Kind::calibrator, name))
    return fmt::format("'{0}' is a calibrator, and calibrators have no settings but the arguments in \"{0},argument,…\"", name);
  if (is_offered(plugin::Kind::comm, name)) return fmt::format("'{}' is a comm strategy, and those have no settings", name);
  return {};
}

/// What may be set, after plugins have taken their settings.
std::string settings_in_use(const config::Document& document, const std::string& scheme) {
  if (scheme.empty()) return "only a scheme has settings, and none is in use";
  std::vector<std::string> keys;
  for (const config::KeyRecord& record : document.keys())
    if (record.section == "quant.plugins." + scheme) keys.push_back(record.key.name);
  return keys.empty() ? fmt::format("only a scheme has settings, and the one in use, '{}', takes none", scheme)
                      : fmt::format("the scheme in use has settings, [quant.plugins.{}] takes {}", scheme, config::listed(keys));
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
  const std::string scheme = settings.quant.use_qwix_quantization ? settings.quant.scheme() : std::string();
  for (const std::string& name : document.names_below("quant.plugins")) {
    if (name == scheme) continue;
    const std::string reason = why_unread(name);
    if (!reason.empty()) document.explain_unread("quant.plugins." + name, reason + "; " + settings_in_use(document, scheme));
  }
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
