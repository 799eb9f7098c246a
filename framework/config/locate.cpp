#include "config/locate.hpp"

#include <cctype>

namespace kvant::config {
namespace {

bool of_word(char c) { return std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '_'; }

/// The key as it was given, in `section` if it has one of this name; null: no layer gives it.
const KeyRecord* given_key(const Document& document, const std::string& section, const std::string& name) {
  const KeyRecord* found = nullptr;
  for (const KeyRecord& record : document.keys()) {
    if (!record.given || record.key.name != name) continue;
    if (record.section == section) return &record;
    if (found == nullptr) found = &record;
  }
  return found;
}

}  // namespace

std::string located(const Document& document, const std::string& sentence) {
  std::string section;
  for (std::size_t i = 0; i < sentence.size();) {
    // A value, not a name; an apostrophe inside a word begins none.
    if (sentence[i] == '"' || (sentence[i] == '\'' && (i == 0 || !of_word(sentence[i - 1])))) {
      const std::size_t end = sentence.find(sentence[i], i + 1);
      i = end == std::string::npos ? i + 1 : end + 1;
      continue;
    }
    if (!of_word(sentence[i])) {
      ++i;
      continue;
    }
    std::size_t end = i;
    while (end < sentence.size() && of_word(sentence[end])) ++end;
    const std::string word = sentence.substr(i, end - i);
    const bool in_brackets = i > 0 && sentence[i - 1] == '[' && end < sentence.size() && sentence[end] == ']';
    if (in_brackets) section = word;
    else if (const KeyRecord* record = given_key(document, section, word); record != nullptr)
      return to_string(record->place) + ": " + sentence;
    i = end;
  }
  return sentence;
}

}  // namespace kvant::config
