// Text files: which there are, and their bytes. Every failure is a sentence with the path and the system's reason.
#pragma once

#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

namespace kvant::data::detail {

/// The files that a list of paths stands for, in the list's order. A folder stands for every regular file below it,
/// sorted by path (bytewise, so that the order is the same on every machine); names that begin with a dot are left
/// out. Refuses a path that does not exist, that is neither file nor folder, and a folder without any file.
std::vector<std::filesystem::path> list_text_files(const std::vector<std::string>& paths);

/// The bytes of a regular file, read once. `what` names its role in an error: "text file", "tokenizer model".
std::string read_file(const std::filesystem::path& path, std::string_view what);

}  // namespace kvant::data::detail
