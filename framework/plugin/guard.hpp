// Runs code of a plugin: whatever it throws becomes one sentence that names the plugin, its file and what it was doing.
#pragma once

#include "base/error.hpp"
#include "plugin/registry.hpp"

#include <cctype>
#include <exception>
#include <string>
#include <string_view>
#include <utility>

namespace kvant::plugin {

/// "Plugin 'x' (file)" at the start of a sentence.
inline std::string subject(const Origin& origin) {
  std::string who = origin.text();
  who[0] = static_cast<char>(std::toupper(static_cast<unsigned char>(who[0])));
  return who;
}

/// Inside a catch: throws what was caught again, as a sentence. Errors of Kvant keep their exit code.
[[noreturn]] inline void rethrow_named(const Origin& origin, std::string_view doing) {
  try {
    throw;
  } catch (const UsageError& error) {
    refuse("{} failed while {}: {}", subject(origin), doing, error.what());
  } catch (const Error& error) {
    throw Error(fmt::format("{} failed while {}: {}", subject(origin), doing, error.what()), error.code());
  } catch (const std::exception& error) {
    refuse("{} failed while {}: it threw '{}'.", subject(origin), doing, error.what());
  } catch (...) {
    refuse("{} failed while {}: it threw something that is not a std::exception.", subject(origin), doing);
  }
}

/// The function's result. `doing` ends "… failed while"; nothing is formatted unless something is thrown, so these may stand around
/// a call in a step.
template <class Function>
decltype(auto) guard(const Origin& origin, std::string_view doing, Function&& function) {
  try {
    return std::forward<Function>(function)();
  } catch (...) {
    rethrow_named(origin, doing);
  }
}

/// The same, but what the plugin refuses in a sentence of its own (UsageError: a setting, an argument) passes as it is.
template <class Function>
decltype(auto) call(const Origin& origin, std::string_view doing, Function&& function) {
  try {
    return std::forward<Function>(function)();
  } catch (const UsageError&) {
    throw;
  } catch (...) {
    rethrow_named(origin, doing);
  }
}

}  // namespace kvant::plugin
