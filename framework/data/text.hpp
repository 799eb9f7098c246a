// A text as token ids: files are read once, cut into documents and encoded. Offsets are 64 bits wide.
#pragma once

#include "data/documents.hpp"
#include "data/token_store.hpp"
#include "data/tokenizer.hpp"

#include <filesystem>
#include <string>
#include <vector>

namespace kvant::data {

struct TextFile {
  std::filesystem::path path;
  int64_t bytes = 0;
  int64_t first_document = 0;
};

/// Document d holds the tokens document_begin[d] … document_begin[d + 1] - 1: bos (where the tokenizer has one), the
/// text, eos (where it has one). With eos the blank lines at the end of a document are left out, since eos takes their
/// place, and a document that ends with eos already does not get a second one; without eos they stay: they are what
/// ends it.
struct TokenizedText {
  std::vector<TextFile> files;
  std::vector<int64_t> document_begin;  ///< documents + 1 entries, ascending
  TokenStore tokens;

  int64_t documents() const { return static_cast<int64_t>(document_begin.size()) - 1; }
  int64_t document_size(int64_t d) const {
    return document_begin[static_cast<size_t>(d) + 1] - document_begin[static_cast<size_t>(d)];
  }
  int64_t bytes() const;
};

/// Refuses: a path that does not exist or cannot be read, a folder without files, text that is not UTF-8 where the
/// tokenizer needs it (file and byte offset), a text without any document. An empty file among others is left out with
/// a warning.
TokenizedText tokenize_text(const std::vector<std::filesystem::path>& files, DocumentSeparator separator,
                            const Tokenizer& tokenizer);

/// The same for paths of files and folders (detail/files.hpp says which files a folder stands for).
TokenizedText tokenize_text(const std::vector<std::string>& paths, DocumentSeparator separator,
                            const Tokenizer& tokenizer);

}  // namespace kvant::data
