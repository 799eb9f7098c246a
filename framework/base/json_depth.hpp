// How deep JSON text nests, found without parsing it: a parser or printer that recurses would run out of stack on hostile text.
#pragma once

#include <algorithm>
#include <string_view>

namespace kvant {

/// The most brackets that are open at once, strings left out.
constexpr int json_depth(std::string_view text) {
  int depth = 0, most = 0;
  bool quoted = false;
  for (std::size_t i = 0; i < text.size(); ++i) {
    const char c = text[i];
    if (quoted) {
      if (c == '\\')
        ++i;
      else if (c == '"')
        quoted = false;
    } else if (c == '"') {
      quoted = true;
    } else if (c == '[' || c == '{') {
      most = std::max(most, ++depth);
    } else if (c == ']' || c == '}') {
      --depth;
    }
  }
  return most;
}

}  // namespace kvant
