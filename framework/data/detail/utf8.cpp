#include "data/detail/utf8.hpp"

#include <fmt/format.h>

namespace kvant::data::detail {
namespace {

bool is_continuation(unsigned char byte) { return (byte & 0xC0u) == 0x80u; }

/// Bytes of the valid character that begins at `at`, 0 if none does.
size_t character_length(std::string_view text, size_t at) {
  const auto byte = [&](size_t i) { return static_cast<unsigned char>(text[at + i]); };
  const size_t left = text.size() - at;
  const unsigned char first = byte(0);
  if (first < 0x80) return 1;
  if (first >= 0xC2 && first <= 0xDF) return left >= 2 && is_continuation(byte(1)) ? 2 : 0;
  if (first >= 0xE0 && first <= 0xEF) {
    if (left < 3 || !is_continuation(byte(1)) || !is_continuation(byte(2))) return 0;
    if (first == 0xE0 && byte(1) < 0xA0) return 0;  // overlong
    if (first == 0xED && byte(1) > 0x9F) return 0;  // surrogate
    return 3;
  }
  if (first >= 0xF0 && first <= 0xF4) {
    if (left < 4 || !is_continuation(byte(1)) || !is_continuation(byte(2)) || !is_continuation(byte(3))) return 0;
    if (first == 0xF0 && byte(1) < 0x90) return 0;  // overlong
    if (first == 0xF4 && byte(1) > 0x8F) return 0;  // above U+10FFFF
    return 4;
  }
  return 0;
}

}  // namespace

size_t find_invalid_utf8(std::string_view text) {
  size_t at = 0;
  while (at < text.size()) {
    const size_t length = character_length(text, at);
    if (length == 0) return at;
    at += length;
  }
  return valid_utf8;
}

std::string printable(std::string_view text) {
  std::string shown;
  for (size_t at = 0; at < text.size();) {
    const auto byte = static_cast<unsigned char>(text[at]);
    const size_t length = character_length(text, at);
    const bool plain_ascii = byte == '\n' || (byte >= 0x20 && byte < 0x7F);
    // C2 80 … C2 9F are control characters too: some terminals obey them.
    const bool control = byte == 0xC2 && length == 2 && static_cast<unsigned char>(text[at + 1]) < 0xA0;
    if (plain_ascii || (length > 1 && !control)) {
      shown.append(text.substr(at, length));
      at += length;
    } else {
      shown += fmt::format("\\x{:02x}", byte);
      at += 1;
    }
  }
  return shown;
}

}  // namespace kvant::data::detail
