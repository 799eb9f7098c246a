#include "base/log.hpp"

#include <spdlog/sinks/basic_file_sink.h>
#include <spdlog/sinks/stdout_sinks.h>
#include <spdlog/spdlog.h>

#include <algorithm>
#include <memory>
#include <mutex>
#include <unordered_set>

namespace kvant::log {
namespace {

spdlog::level::level_enum translate(Level level) {
  switch (level) {
    case Level::debug: return spdlog::level::debug;
    case Level::info: return spdlog::level::info;
    case Level::warning: return spdlog::level::warn;
    case Level::error: break;
  }
  return spdlog::level::err;
}

std::shared_ptr<spdlog::logger>& logger() {
  static std::shared_ptr<spdlog::logger> instance = [] {
    auto sink = std::make_shared<spdlog::sinks::stderr_sink_mt>();
    auto made = std::make_shared<spdlog::logger>("kvant", sink);
    made->set_pattern("%H:%M:%S %l: %v");
    made->flush_on(spdlog::level::info);
    return made;
  }();
  return instance;
}

}  // namespace

void configure(Level lowest, const std::string& file) {
  logger()->set_level(translate(lowest));
  if (file.empty()) return;
  auto sink = std::make_shared<spdlog::sinks::basic_file_sink_mt>(file);
  sink->set_pattern("%Y-%m-%d %H:%M:%S %l: %v");
  logger()->sinks().push_back(sink);
}

void write(Level level, std::string_view line) { logger()->log(translate(level), line); }

void write_to_file(std::string_view lines, Level level) {
  const auto& sinks = logger()->sinks();
  while (!lines.empty()) {
    const auto end = std::min(lines.find('\n'), lines.size());
    const spdlog::details::log_msg message(logger()->name(), translate(level), lines.substr(0, end));
    for (std::size_t i = 1; i < sinks.size(); ++i) sinks[i]->log(message);  // the first one is the console
    lines.remove_prefix(std::min(end + 1, lines.size()));
  }
  flush();
}

void flush() { logger()->flush(); }

void once(Level level, const std::string& line) {
  static std::mutex mutex;
  static std::unordered_set<std::string> seen;
  const std::lock_guard lock(mutex);
  if (seen.insert(line).second) write(level, line);
}

}  // namespace kvant::log
