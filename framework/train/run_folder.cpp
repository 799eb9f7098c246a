#include "train/run_folder.hpp"

#include "base/error.hpp"
#include "train/detail/file_writer.hpp"

#include <sys/stat.h>
#include <sys/statvfs.h>
#include <algorithm>
#include <cerrno>
#include <charconv>
#include <cstring>

namespace kvant::train {
namespace fs = std::filesystem;
namespace {

/// Any of these makes a folder one that holds a run.
constexpr std::string_view run_files[] = {"config.toml", "metrics.jsonl", "metrics.csv", "parameters.safetensors", "run.log", "sites.txt"};

void check_space(const fs::path& folder, uint64_t bytes_needed) {
  fs::path existing = fs::absolute(folder);
  while (!fs::exists(existing) && existing.has_relative_path()) existing = existing.parent_path();
  struct statvfs space{};
  if (::statvfs(existing.c_str(), &space) != 0) {
    refuse("The run folder '{}' cannot be made: {}.", folder.string(), std::strerror(errno));
  }
  const uint64_t free = uint64_t{space.f_bavail} * space.f_frsize;
  if (free < bytes_needed) {
    refuse("There is no disk space for the run folder '{}': {} bytes are free, {} are needed.", folder.string(), free,
           bytes_needed);
  }
}

void make_folders(const fs::path& folder) {
  std::error_code error;
  fs::create_directories(folder, error);
  if (error) refuse("The run folder '{}' cannot be made: {}.", folder.string(), error.message());
}

/// The number that a folder's name is, 0 if it is none.
int64_t number_of(const std::string& name) {
  int64_t number = 0;
  const auto result = std::from_chars(name.data(), name.data() + name.size(), number);
  return result.ec == std::errc() && result.ptr == name.data() + name.size() ? number : 0;
}

int64_t largest_number(const fs::path& parent) {
  int64_t largest = 0;
  std::error_code error;
  for (fs::directory_iterator entry(parent, error), end; !error && entry != end; entry.increment(error)) {
    largest = std::max(largest, number_of(entry->path().filename().string()));
  }
  if (error) refuse("The folder '{}', which holds the runs, cannot be read: {}.", parent.string(), error.message());
  return largest;
}

fs::path make_numbered(const fs::path& parent) {
  make_folders(parent);
  for (int64_t number = largest_number(parent) + 1;; ++number) {
    const fs::path folder = parent / fmt::format("{:04}", number);
    if (::mkdir(folder.c_str(), 0777) == 0) return folder;
    if (errno != EEXIST) refuse("The run folder '{}' cannot be made: {}.", folder.string(), std::strerror(errno));
  }
}

void check_holds_no_run(const fs::path& folder) {
  for (const std::string_view name : run_files) {
    if (fs::exists(folder / name)) {
      refuse("The run folder '{}' holds a run already ({}); name a new folder, or remove that one.", folder.string(),
             name);
    }
  }
}

}  // namespace

void RunFolder::check(const std::string& given, const fs::path& parent, uint64_t bytes_needed) {
  if (given.empty()) return check_space(parent, bytes_needed);
  if (fs::exists(given) && !fs::is_directory(given))
    refuse("The run folder '{}' is a file; a folder is expected.", given);
  check_holds_no_run(given);
  check_space(given, bytes_needed);
}

RunFolder RunFolder::create(const std::string& given, const fs::path& parent, uint64_t bytes_needed) {
  check(given, parent, bytes_needed);
  if (given.empty()) return RunFolder(make_numbered(parent));
  make_folders(given);
  return RunFolder(given);
}

void RunFolder::write(std::string_view name, std::string_view text) const {
  detail::FileWriter(path_ / name).write(text);
}

}  // namespace kvant::train
