// The log: spdlog behind four calls. Lines go to stderr, so that stdout stays the program's result (JSON, tables).
#pragma once

#include <fmt/format.h>

#include <string>
#include <string_view>

namespace kvant::log {

enum class Level { debug, info, warning, error };

/// Sets the lowest level that is printed (default info) and, if not empty, a file that receives every line as well.
void configure(Level lowest, const std::string& file = {});
void write(Level level, std::string_view line);
/// Lines for the file alone, where one was configured: tables that would drown the console, and what the console has otherwise.
void write_to_file(std::string_view lines, Level level = Level::info);
void flush();

template <class... Args>
void debug(fmt::format_string<Args...> f, Args&&... a) { write(Level::debug, fmt::format(f, std::forward<Args>(a)...)); }
template <class... Args>
void info(fmt::format_string<Args...> f, Args&&... a) { write(Level::info, fmt::format(f, std::forward<Args>(a)...)); }
template <class... Args>
void warning(fmt::format_string<Args...> f, Args&&... a) { write(Level::warning, fmt::format(f, std::forward<Args>(a)...)); }
template <class... Args>
void error(fmt::format_string<Args...> f, Args&&... a) { write(Level::error, fmt::format(f, std::forward<Args>(a)...)); }

/// Prints the line once per process whatever how often it is reached (the line itself is the key).
void once(Level level, const std::string& line);

}  // namespace kvant::log
