#include "config/reference.hpp"

#include <fmt/format.h>

namespace kvant::config {
namespace {

/// A cell of a Markdown table: a bar would end it.
std::string cell(const std::string& text) {
  std::string out;
  for (const char c : text) {
    if (c == '|') out += '\\';
    out += c;
  }
  return out;
}

std::string type_of(const KeyRecord& record) {
  std::string text = record.type;
  if (!record.allowed.empty()) text += record.type == "string" ? ": " + record.allowed : ", " + record.allowed;
  return text;
}

}  // namespace

std::string reference_of(const std::vector<KeyRecord>& keys) {
  std::string out;
  std::string section;
  for (const KeyRecord& record : keys) {
    if (record.section != section) {
      section = record.section;
      out += fmt::format("{}## {}\n\n| key | type | default | unit | meaning |\n|---|---|---|---|---|\n",
                         out.empty() ? "" : "\n", record.header);
    }
    const std::string fallback = record.fallback.empty() ? "required" : "`" + record.fallback + "`";
    out += fmt::format("| `{}` | {} | {} | {} | {} |\n", record.key.name, cell(type_of(record)), cell(fallback),
                       record.key.unit, cell(record.key.description));
  }
  return out;
}

}  // namespace kvant::config
