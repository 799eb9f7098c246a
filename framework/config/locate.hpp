// Where a sentence's setting stands: for what is found wrong after the file was read, when settings are only values.
#pragma once

#include "config/document.hpp"

#include <string>

namespace kvant::config {

/// "run.toml:12:1: " and the sentence, where the sentence names a key that the file or an override gives: the first such
/// name counts, `[section] key` before a key of another section. The sentence alone where it names none.
std::string located(const Document& document, const std::string& sentence);

}  // namespace kvant::config
