#include "plugin/detail/search.hpp"

#include "base/error.hpp"
#include "plugin/loader.hpp"

#include <dlfcn.h>
#include <algorithm>
#include <cstdlib>
#include <set>
#include <sstream>

namespace kvant::plugin {
namespace detail {

namespace fs = std::filesystem;

std::vector<fs::path> folders(const std::string& plugin_path, const fs::path& program, const fs::path& library) {
  std::vector<fs::path> all;
  const auto add = [&](const fs::path& folder) {
    const fs::path normal = folder.lexically_normal();
    if (std::ranges::find(all, normal) == all.end()) all.push_back(normal);
  };
  std::istringstream stream(plugin_path);
  for (std::string part; std::getline(stream, part, ':');)
    if (!part.empty()) add(fs::absolute(part));
  const fs::path bin = program.parent_path(), lib = library.parent_path();
  add(bin / "../plugins");  // build tree
  add(lib / "../plugins");
  add(lib / "kvant/plugins");  // install
  add(bin / "../lib/kvant/plugins");
  return all;
}

std::vector<fs::path> libraries_in(const std::vector<fs::path>& folders) {
  std::vector<fs::path> all;
  std::set<fs::path> seen;
  for (const fs::path& folder : folders) {
    std::vector<fs::path> here;
    std::error_code error;
    for (fs::directory_iterator entry(folder, error), end; !error && entry != end; entry.increment(error))
      if (entry->path().extension() == ".so") here.push_back(entry->path());
    std::ranges::sort(here);
    for (const fs::path& file : here)
      if (seen.insert(fs::weakly_canonical(file, error)).second) all.push_back(file);
  }
  return all;
}

std::string described(const std::vector<fs::path>& folders) {
  std::string text;
  std::error_code error;
  for (const fs::path& folder : folders) {
    if (!text.empty()) text += ", ";
    text += folder.string();
    if (!fs::is_directory(folder, error)) text += " (no such folder)";
  }
  return text;
}

}  // namespace detail

std::vector<std::filesystem::path> search_path() {
  const char* plugin_path = std::getenv("KVANT_PLUGIN_PATH");
  std::error_code error;
  const std::filesystem::path program = std::filesystem::read_symlink("/proc/self/exe", error);
  Dl_info library{};
  static const char here = 0;  // lies in libkvant
  if (dladdr(&here, &library) == 0 || library.dli_fname == nullptr)
    fail("The dynamic linker does not say where libkvant.so lies.");
  return detail::folders(plugin_path == nullptr ? "" : plugin_path, program,
                         std::filesystem::weakly_canonical(library.dli_fname));
}

}  // namespace kvant::plugin
