#include "train/detail/console.hpp"

#include <fmt/format.h>

#include <sys/ioctl.h>
#include <algorithm>
#include <cmath>

namespace kvant::train::detail {
namespace {

int columns_of(std::FILE* file) {
  struct winsize size{};
  const bool known = ::ioctl(::fileno(file), TIOCGWINSZ, &size) == 0 && size.ws_col > 0;
  return known ? size.ws_col : 80;
}

}  // namespace

std::string duration(double seconds) {
  if (!std::isfinite(seconds) || seconds < 0 || seconds > 99 * 86400.0) return "?";
  const auto whole = static_cast<int64_t>(std::lround(seconds));
  const int64_t hours = whole / 3600, minutes = whole / 60 % 60;
  if (hours > 0) return fmt::format("{}:{:02}:{:02}", hours, minutes, whole % 60);
  return fmt::format("{}:{:02}", minutes, whole % 60);
}

std::string bar(int64_t done, int64_t steps, double elapsed, const std::string& note, int width) {
  constexpr int cells = 30;
  const double share = steps > 0 ? std::clamp(static_cast<double>(done) / static_cast<double>(steps), 0.0, 1.0) : 1.0;
  const auto full = static_cast<int>(share * cells);
  const double left = done > 0 ? elapsed / static_cast<double>(done) * static_cast<double>(steps - done) : -1.0;
  std::string text = fmt::format("[{}{}]  {}/{}  {}%  {} left  {}", std::string(static_cast<size_t>(full), '#'),
                                 std::string(static_cast<size_t>(cells - full), '-'), done, steps,
                                 static_cast<int>(share * 100), duration(left), note);
  // One column stays free: some terminals begin a new line once the last one is written.
  if (text.size() >= static_cast<size_t>(std::max(width, 1))) text.resize(static_cast<size_t>(std::max(width, 1)) - 1);
  return text;
}

Console::Console(std::FILE* file, bool terminal, int64_t steps) : file_(file), terminal_(terminal), steps_(steps) {}

// A console that is gone (a closed pipe, a full disk) does not end a run: the program says so at its end.
void Console::put(const std::string& text) { (void)std::fwrite(text.data(), 1, text.size(), file_); }

void Console::draw() {
  // The cursor goes back to the first column, so that a line of the log covers the bar instead of following it.
  put("\r\033[K" + bar_ + "\r");
}

void Console::line(const std::string& text) {
  put((bar_.empty() ? "" : "\r\033[K") + text + "\n");
  if (!bar_.empty()) draw();
  std::fflush(file_);
}

void Console::progress(int64_t done, const std::string& note) {
  if (!terminal_) return;
  const auto now = Clock::now();
  if (done < steps_ && !bar_.empty() && now - drawn_ < std::chrono::milliseconds(100)) return;
  drawn_ = now;
  bar_ = bar(done, steps_, std::chrono::duration<double>(now - begin_).count(), note, columns_of(file_));
  draw();
  std::fflush(file_);
}

void Console::finish() {
  if (!bar_.empty()) put("\r\033[K");
  bar_.clear();
  std::fflush(file_);
}

}  // namespace kvant::train::detail
