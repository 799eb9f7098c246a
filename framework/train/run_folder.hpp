// The folder that a run writes to. Nothing in it is ever written over.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <string_view>

namespace kvant::train {

class RunFolder {
 public:
  /// `given` empty: a new folder <parent>/0001, 0002, …: one more than the largest number there; two runs that start at
  /// once get two. Otherwise the folder `given`, made with its parents where it is missing. One process of a run calls
  /// this.
  /// Refuses a given folder that holds a run (a file of a name that a run writes) or is a file, one that cannot be made, and a file system with less than `bytes_needed` bytes free.
  static RunFolder create(const std::string& given, const std::filesystem::path& parent, uint64_t bytes_needed);
  /// Refuses what `create` would refuse, as far as that can be told without making anything.
  static void check(const std::string& given, const std::filesystem::path& parent, uint64_t bytes_needed);

  const std::filesystem::path& path() const { return path_; }

  /// Writes a new file into the folder; throws Error if it is there already or cannot be written.
  void write(std::string_view name, std::string_view text) const;

 private:
  explicit RunFolder(std::filesystem::path path) : path_(std::move(path)) {}
  std::filesystem::path path_;
};

}  // namespace kvant::train
