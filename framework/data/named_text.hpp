// Texts that have a name instead of a path.
#pragma once

#include <filesystem>
#include <string_view>
#include <vector>

namespace kvant::data {

/// The files of a named text. "gcide": the GNU Collaborative International Dictionary of English, which set-up fetches
/// as gcide.txt into the folder that the environment names as KVANT_TEXT_DIR. Where the file is not there the log says
/// so, in a warning with the reason, and the files are Kvant's own docs and sources below KVANT_ROOT (README.md,
/// docs/**/*.md, framework/**/*.hpp and *.cpp). Refuses an unknown name, and "gcide" where neither is to be found.
std::vector<std::filesystem::path> named_text_files(std::string_view name);

}  // namespace kvant::data
