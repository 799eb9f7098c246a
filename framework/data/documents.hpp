// Where one document ends and the next begins in a text file. The end of a file always ends a document.
#pragma once

#include <functional>
#include <string_view>

namespace kvant::data {

/// A blank line holds nothing but spaces, tabs and a carriage return.
enum class DocumentSeparator {
  entry,       ///< blank lines, then a line that begins in the first column: indented paragraphs stay with their entry
  blank_line,  ///< one blank line or more
  file,        ///< nothing: a file is one document
};

/// "entry", "blank_line" or "file"; refuses anything else.
DocumentSeparator parse_document_separator(std::string_view name);
std::string_view to_string(DocumentSeparator separator);

/// Calls `take` for every document in order. Documents hold every byte of the text, blank lines at their end included,
/// so that joined they are the text again; blank lines at the beginning of the text belong to its first document. A
/// text of blank lines alone has no document.
void for_each_document(std::string_view text, DocumentSeparator separator,
                       const std::function<void(std::string_view)>& take);

/// The document without the blank lines at its end and without its last line break.
std::string_view strip_separator(std::string_view document);

}  // namespace kvant::data
