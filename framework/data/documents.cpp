#include "data/documents.hpp"

#include "base/error.hpp"

namespace kvant::data {
namespace {

constexpr std::string_view blanks = " \t\r\n";

}  // namespace

DocumentSeparator parse_document_separator(std::string_view name) {
  if (name == "entry") return DocumentSeparator::entry;
  if (name == "blank_line") return DocumentSeparator::blank_line;
  if (name == "file") return DocumentSeparator::file;
  refuse("document_separator is \"{}\"; \"entry\", \"blank_line\" and \"file\" are known.", name);
}

std::string_view to_string(DocumentSeparator separator) {
  switch (separator) {
    case DocumentSeparator::entry:
      return "entry";
    case DocumentSeparator::blank_line:
      return "blank_line";
    case DocumentSeparator::file:
      break;
  }
  return "file";
}

void for_each_document(std::string_view text, DocumentSeparator separator,
                       const std::function<void(std::string_view)>& take) {
  size_t begin = 0;          // of the open document
  bool has_text = false;     // whether the open document has a line that is not blank
  bool after_blank = false;  // whether the line before this one is blank
  for (size_t at = 0; at < text.size();) {
    const size_t newline = text.find('\n', at);
    const size_t end = newline == std::string_view::npos ? text.size() : newline + 1;
    const std::string_view line = text.substr(at, end - at);
    if (line.find_first_not_of(blanks) == std::string_view::npos) {
      after_blank = true;
    } else {
      const bool in_first_column = line[0] != ' ' && line[0] != '\t';
      const bool may_begin =
          separator == DocumentSeparator::blank_line || (separator == DocumentSeparator::entry && in_first_column);
      if (has_text && after_blank && may_begin) {
        take(text.substr(begin, at - begin));
        begin = at;
      }
      has_text = true;
      after_blank = false;
    }
    at = end;
  }
  if (has_text) take(text.substr(begin));
}

std::string_view strip_separator(std::string_view document) {
  // Only whole blank lines go: spaces at the end of the last line with text are part of the text.
  for (;;) {
    if (document.ends_with('\n')) document.remove_suffix(1);
    const size_t line = document.rfind('\n') + 1;  // npos + 1 = 0
    if (line == 0 || document.find_first_not_of(blanks, line) != std::string_view::npos) return document;
    document.remove_suffix(document.size() - line);
  }
}

}  // namespace kvant::data
