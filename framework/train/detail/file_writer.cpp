#include "train/detail/file_writer.hpp"

#include "base/error.hpp"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>
#include <cerrno>
#include <cstring>

namespace kvant::train::detail {

FileWriter::FileWriter(const std::filesystem::path& path, bool must_be_new)
    : path_(path),
      descriptor_(::open(path.c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC | (must_be_new ? O_EXCL : 0), 0666)) {
  if (descriptor_ < 0) fail("The file '{}' cannot be created: {}.", path.string(), std::strerror(errno));
}

FileWriter::~FileWriter() { ::close(descriptor_); }

void FileWriter::write(std::string_view text) {
  struct stat before{};
  const bool cuttable = ::fstat(descriptor_, &before) == 0 && S_ISREG(before.st_mode);
  while (!text.empty()) {
    const ssize_t done = ::write(descriptor_, text.data(), text.size());
    if (done < 0 && errno == EINTR) continue;
    if (done < 0) {
      const std::string reason = std::strerror(errno);
      // Rows are whole or not there: what was written of this one is taken back. Where that fails too, `reason` says enough.
      if (cuttable) (void)!::ftruncate(descriptor_, before.st_size);
      fail("The file '{}' cannot be written: {}.", path_.string(), reason);
    }
    text.remove_prefix(static_cast<size_t>(done));
  }
}

}  // namespace kvant::train::detail
