// A FILE* that keeps what is written to it.
#pragma once

#include <cstdio>
#include <cstdlib>
#include <stdexcept>
#include <string>

namespace kvant::test {

class CapturedStream {
 public:
  CapturedStream() : file_(::open_memstream(&text_, &size_)) {
    if (file_ == nullptr) throw std::runtime_error("no stream in memory can be opened");
  }
  ~CapturedStream() {
    std::fclose(file_);
    std::free(text_);
  }
  CapturedStream(const CapturedStream&) = delete;
  CapturedStream& operator=(const CapturedStream&) = delete;

  std::FILE* get() const { return file_; }
  std::string text() const {
    std::fflush(file_);
    return {text_, size_};
  }

 private:
  char* text_ = nullptr;
  std::size_t size_ = 0;
  std::FILE* file_;
};

}  // namespace kvant::test
