// Room base: what every other room stands on (errors, log, random numbers, the one door to Kokkos).
// This header: errors are sentences. Whoever throws says what was wrong, the value, the place and what would have
// been accepted; whoever catches at the top prints it as the last line and returns the exit code.
#pragma once

#include <fmt/format.h>

#include <stdexcept>
#include <string>

namespace kvant {

/// Exit codes of the program. They are part of its public face: batch scripts test them.
enum class ExitCode : int {
  success = 0,
  failure = 1,        ///< anything that has no code of its own
  usage = 2,          ///< command line, configuration file or plugin refused before anything ran
  numerics = 3,       ///< NaN or Inf in loss or gradients, integer overflow of a scale
  interrupted = 130,  ///< SIGINT or SIGTERM: metrics are flushed, nothing is half written
};

class Error : public std::runtime_error {
 public:
  explicit Error(const std::string& sentence, ExitCode code = ExitCode::failure)
      : std::runtime_error(sentence), code_(code) {}
  ExitCode code() const { return code_; }

 private:
  ExitCode code_;
};

/// The user's input (file, flag, plugin, text) was refused; nothing has been written.
class UsageError : public Error {
 public:
  explicit UsageError(const std::string& sentence) : Error(sentence, ExitCode::usage) {}
};

template <class... Args>
[[noreturn]] void fail(fmt::format_string<Args...> format, Args&&... args) {
  throw Error(fmt::format(format, std::forward<Args>(args)...));
}

template <class... Args>
[[noreturn]] void refuse(fmt::format_string<Args...> format, Args&&... args) {
  throw UsageError(fmt::format(format, std::forward<Args>(args)...));
}

/// An invariant of our own code: says what was expected. Not for user input (use refuse).
template <class... Args>
void require(bool condition, fmt::format_string<Args...> format, Args&&... args) {
  if (!condition) throw Error(fmt::format(format, std::forward<Args>(args)...));
}

}  // namespace kvant
