// Where plugins may lie.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

namespace kvant::plugin::detail {

/// Folders for a value of KVANT_PLUGIN_PATH (colons; empty parts and repetitions dropped) and for the places of the
/// program and of libkvant. Whether they exist is not asked.
std::vector<std::filesystem::path> folders(const std::string& plugin_path, const std::filesystem::path& program,
                                           const std::filesystem::path& library);

/// Libraries in these folders (*.so), by folder, then by name; the same file is listed once.
std::vector<std::filesystem::path> libraries_in(const std::vector<std::filesystem::path>& folders);

/// "/a, /b (which does not exist)": for the sentence about a missing plugin.
std::string described(const std::vector<std::filesystem::path>& folders);

}  // namespace kvant::plugin::detail
