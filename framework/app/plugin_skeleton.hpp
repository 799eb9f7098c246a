// The files of a new plugin: a project of its own outside of Kvant's tree, which builds, is loaded and has tests.
#pragma once

#include "plugin/registry.hpp"

#include <filesystem>
#include <string>
#include <vector>

namespace kvant::app {

/// Writes <folder>/<name>/ with CMakeLists.txt, <name>.cpp, try.toml and README.md, and returns what was written. kind:
/// scheme or calibrator. Refuses a name that is no plugin's name or is taken by `taken`, and a folder that exists.
std::vector<std::filesystem::path> write_plugin_skeleton(plugin::Kind kind, const std::string& name,
                                                         const std::filesystem::path& folder,
                                                         const std::vector<std::string>& taken);

}  // namespace kvant::app
