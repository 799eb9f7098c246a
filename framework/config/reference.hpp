// The reference of all keys, from what the readers declared. docs/configuration.md holds it, and a test compares.
#pragma once

#include <string>
#include <vector>

#include "config/document.hpp"

namespace kvant::config {

/// Markdown: a heading and a table for each section, in the order of taking.
std::string reference_of(const std::vector<KeyRecord>& keys);

}  // namespace kvant::config
