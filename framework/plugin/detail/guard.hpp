// Runs code of a plugin: whatever it throws becomes one sentence that names the plugin, its file and what it was doing.
#pragma once

#include "base/error.hpp"
#include "plugin/registry.hpp"

#include <cctype>
#include <exception>
#include <string>
#include <utility>

namespace kvant::plugin::detail {

/// `doing` ends "… failed while".
template <class Function>
void guard(const Origin& origin, const std::string& doing, Function&& function) {
  std::string who = origin.text();
  who[0] = static_cast<char>(std::toupper(static_cast<unsigned char>(who[0])));
  try {
    std::forward<Function>(function)();
  } catch (const Error& error) {
    throw Error(fmt::format("{} failed while {}: {}", who, doing, error.what()), error.code());
  } catch (const std::exception& error) {
    refuse("{} failed while {}: it threw '{}'.", who, doing, error.what());
  } catch (...) {
    refuse("{} failed while {}: it threw something that is not a std::exception.", who, doing);
  }
}

}  // namespace kvant::plugin::detail
