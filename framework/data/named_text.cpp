#include "data/named_text.hpp"

#include "base/error.hpp"
#include "base/log.hpp"

#include <algorithm>
#include <cstdlib>

namespace kvant::data {
namespace fs = std::filesystem;
namespace {

std::string environment(const char* name) {
  const char* value = std::getenv(name);
  return value == nullptr ? "" : value;
}

void append_sources(const fs::path& folder, const std::vector<std::string_view>& extensions,
                    std::vector<fs::path>& files) {
  std::error_code error;
  for (fs::recursive_directory_iterator entry(folder, error), end; !error && entry != end; entry.increment(error)) {
    const bool wanted =
        std::find(extensions.begin(), extensions.end(), entry->path().extension().string()) != extensions.end();
    if (wanted && entry->is_regular_file()) files.push_back(entry->path());
  }
}

std::vector<fs::path> own_sources(const fs::path& root) {
  std::vector<fs::path> files;
  if (fs::is_regular_file(root / "README.md")) files.push_back(root / "README.md");
  append_sources(root / "docs", {".md"}, files);
  append_sources(root / "framework", {".hpp", ".cpp"}, files);
  std::sort(files.begin(), files.end(), [](const fs::path& a, const fs::path& b) { return a.native() < b.native(); });
  return files;
}

/// The dictionary's file, or an empty path and the reason why it is not there.
fs::path find_gcide(std::string& reason) {
  const std::string folder = environment("KVANT_TEXT_DIR");
  if (folder.empty()) {
    reason = "the environment variable KVANT_TEXT_DIR, the folder that holds gcide.txt, is not set (./kvant sets it)";
    return {};
  }
  const fs::path file = fs::path(folder) / "gcide.txt";
  std::error_code error;
  if (!fs::is_regular_file(file, error)) {
    reason =
        fmt::format("'{}' is not there (./kvant setup fetches it from Debian's package dict-gcide)", file.string());
    return {};
  }
  return file;
}

}  // namespace

std::vector<fs::path> named_text_files(std::string_view name) {
  if (name != "gcide")
    refuse("dataset_name is \"{}\", which is no text known here; \"gcide\" is, and dataset_path takes files and folders.", name);
  std::string reason;
  if (const fs::path file = find_gcide(reason); !file.empty()) return {file};
  const std::string root = environment("KVANT_ROOT");
  std::vector<fs::path> files;
  if (!root.empty()) files = own_sources(root);
  if (files.empty()) {
    refuse(
        "The text \"gcide\" cannot be had: {}. Kvant's own docs and sources, which would take its place, were not "
        "found either ({}).",
        reason, root.empty() ? "KVANT_ROOT is not set" : fmt::format("below KVANT_ROOT, '{}'", root));
  }
  log::warning(
      "The text \"gcide\" cannot be had: {}. This run trains on Kvant's own docs and sources instead ({} files below "
      "'{}'), "
      "so its losses cannot be compared with those of a run on the dictionary.",
      reason, files.size(), root);
  return files;
}

}  // namespace kvant::data
