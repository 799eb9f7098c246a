#include "data/detail/files.hpp"

#include "base/error.hpp"
#include "base/log.hpp"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>
#include <algorithm>
#include <cerrno>
#include <cstring>

namespace kvant::data::detail {
namespace fs = std::filesystem;
namespace {

class Descriptor {
 public:
  Descriptor(const fs::path& path, std::string_view what) : value_(::open(path.c_str(), O_RDONLY | O_CLOEXEC)) {
    if (value_ < 0) refuse("The {} '{}' cannot be opened: {}.", what, path.string(), std::strerror(errno));
  }
  ~Descriptor() { ::close(value_); }
  Descriptor(const Descriptor&) = delete;
  Descriptor& operator=(const Descriptor&) = delete;
  int get() const { return value_; }

 private:
  int value_;
};

bool is_hidden(const fs::path& path) { return path.filename().string().starts_with('.'); }

void append_folder(const fs::path& folder, std::vector<fs::path>& files) {
  const size_t before = files.size();
  std::vector<std::string> skipped;
  std::error_code error;
  fs::recursive_directory_iterator entry(folder, error), end;
  for (; !error && entry != end; entry.increment(error)) {
    if (is_hidden(entry->path())) {
      if (entry->is_directory()) entry.disable_recursion_pending();
      continue;
    }
    std::error_code ignored;
    const fs::file_status status = entry->status(ignored);
    if (fs::is_regular_file(status))
      files.push_back(entry->path());
    else if (!fs::is_directory(status) || entry->is_symlink(ignored))
      skipped.push_back(entry->path().filename().string());
  }
  if (!skipped.empty())
    log::warning("{} entr{} of the text folder '{}' {} left out, being no file: links to folders, links that lead nowhere, pipes and the like (the first is '{}').",
                 skipped.size(), skipped.size() == 1 ? "y" : "ies", folder.string(), skipped.size() == 1 ? "is" : "are", skipped.front());
  if (error) refuse("The text folder '{}' cannot be read: {}.", folder.string(), error.message());
  if (files.size() == before) {
    refuse("The text folder '{}' holds no file (names that begin with a dot are left out).", folder.string());
  }
  std::sort(files.begin() + static_cast<std::ptrdiff_t>(before), files.end(),
            [](const fs::path& a, const fs::path& b) { return a.native() < b.native(); });
}

}  // namespace

std::vector<fs::path> list_text_files(const std::vector<std::string>& paths) {
  std::vector<fs::path> files;
  for (const std::string& path : paths) {
    std::error_code error;
    const fs::file_status status = fs::status(path, error);
    if (status.type() == fs::file_type::not_found) {
      refuse("The text '{}' does not exist; a text file or a folder of text files is expected.", path);
    }
    if (status.type() == fs::file_type::none) refuse("The text '{}' cannot be looked at: {}.", path, error.message());
    if (fs::is_directory(status)) {
      append_folder(path, files);
    } else if (fs::is_regular_file(status)) {
      files.emplace_back(path);
    } else {
      refuse("The text '{}' is neither a regular file nor a folder.", path);
    }
  }
  return files;
}

std::string read_file(const fs::path& path, std::string_view what) {
  const Descriptor file(path, what);
  struct stat status{};
  if (::fstat(file.get(), &status) != 0)
    refuse("The {} '{}' cannot be read: {}.", what, path.string(), std::strerror(errno));
  if (!S_ISREG(status.st_mode)) refuse("The {} '{}' is not a regular file.", what, path.string());
  std::string bytes(static_cast<size_t>(status.st_size), '\0');
  size_t done = 0;
  while (done < bytes.size()) {
    const ssize_t got = ::read(file.get(), bytes.data() + done, bytes.size() - done);
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) refuse("The {} '{}' cannot be read: {}.", what, path.string(), std::strerror(errno));
    if (got == 0) {
      refuse("The {} '{}' ended at byte {} although it had {} when it was opened: something else is writing it.", what,
             path.string(), done, bytes.size());
    }
    done += static_cast<size_t>(got);
  }
  return bytes;
}

}  // namespace kvant::data::detail
