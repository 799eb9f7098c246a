// Lines and a progress bar on the console.
#pragma once

#include <chrono>
#include <cstdint>
#include <cstdio>
#include <string>

namespace kvant::train::detail {

/// "[#####---------]  120/400  30%  1:23 left  <note>", cut to `width` columns. `elapsed` seconds since the run began.
std::string bar(int64_t done, int64_t steps, double elapsed, const std::string& note, int width);
/// "1:02:03", "2:03", "0:03"; "?" for what is not finite or more than 99 days.
std::string duration(double seconds);

class Console {
 public:
  Console(std::FILE* file, bool terminal, int64_t steps);
  /// A line that stays.
  void line(const std::string& text);
  /// Moves the bar; nothing where the console is no terminal. At most ten times a second, but for the last step.
  void progress(int64_t done, const std::string& note);
  /// Removes the bar and flushes.
  void finish();

 private:
  using Clock = std::chrono::steady_clock;
  void put(const std::string& text);
  void draw();

  std::FILE* file_;
  bool terminal_;
  int64_t steps_;
  Clock::time_point begin_ = Clock::now(), drawn_{};
  std::string bar_;
};

}  // namespace kvant::train::detail
