// A file that is written row by row and never over another.
#pragma once

#include <filesystem>
#include <string_view>

namespace kvant::train::detail {

class FileWriter {
 public:
  /// Creates `path`. Throws Error naming the path and the system's reason; so does write().
  /// `must_be_new`: a file that is there already is an error; otherwise it is opened to append (a device, a pipe).
  explicit FileWriter(const std::filesystem::path& path, bool must_be_new = true);
  ~FileWriter();
  FileWriter(const FileWriter&) = delete;
  FileWriter& operator=(const FileWriter&) = delete;

  /// Hands all of `text` to the system before it returns: a run that is killed afterwards has lost nothing of it. Where
  /// it cannot (no space), a regular file ends with the text before.
  void write(std::string_view text);
  const std::filesystem::path& path() const { return path_; }

 private:
  std::filesystem::path path_;
  int descriptor_;
};

}  // namespace kvant::train::detail
