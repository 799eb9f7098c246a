// UTF-8 as Unicode's table 3-7 defines it: no overlong forms, no surrogates, nothing above U+10FFFF.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

namespace kvant::data::detail {

inline constexpr size_t valid_utf8 = static_cast<size_t>(-1);

/// The offset of the first byte at which no valid character begins, or valid_utf8. A character that the end of the
/// text cuts off is reported at its first byte.
size_t find_invalid_utf8(std::string_view text);

/// The text as it may be shown on a terminal: line breaks and printable ASCII as they are, valid characters beyond
/// ASCII too, every other byte as \xNN.
std::string printable(std::string_view text);

}  // namespace kvant::data::detail
