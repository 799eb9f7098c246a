// A configuration that has been read and checked, for the commands that run a model.
#pragma once

#include "app/command.hpp"
#include "config/document.hpp"
#include "config/settings.hpp"
#include "data/dataset.hpp"
#include "quant/plan.hpp"

#include <memory>

namespace kvant::app {

struct RunSetup {
  config::Document document;
  config::Settings settings;

  /// Loads the plugins of run.plugins and of the scheme, hands them their sections, and refuses what nobody took.
  /// Kokkos must be up.
  void load_plugins();
  /// Reads the text that the settings name; what is refused is told with the place of the setting.
  std::unique_ptr<data::Dataset> make_dataset() const;
};

/// Reads the file and the overrides and refuses, before any device is touched, what the sections alone can tell. Keys
/// of plugins are taken by load_plugins(). read_model: for commands that need no data and no steps (explain); read_run:
/// for a whole run.
RunSetup read_model(const ConfigArguments& arguments);
RunSetup read_run(const ConfigArguments& arguments);

}  // namespace kvant::app
