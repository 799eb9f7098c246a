#include "data/text.hpp"

#include "base/error.hpp"
#include "base/log.hpp"
#include "data/detail/files.hpp"
#include "data/detail/utf8.hpp"

#include <algorithm>

namespace kvant::data {
namespace {

void check_utf8(std::string_view text, const std::filesystem::path& path, const Tokenizer& tokenizer) {
  const size_t offset = detail::find_invalid_utf8(text);
  if (offset == detail::valid_utf8) return;
  const auto line = 1 + std::count(text.begin(), text.begin() + static_cast<std::ptrdiff_t>(offset), '\n');
  refuse(
      "The text file '{}' is not UTF-8 at byte {} (line {}, value 0x{:02x}), which {} needs; tokenizer_type \"bytes\" "
      "takes any bytes.",
      path.string(), offset, line, static_cast<unsigned char>(text[offset]), tokenizer.name());
}

/// Appends bos, the text and eos of one document to `ids`.
void encode_document(std::string_view document, const Tokenizer& tokenizer, std::vector<int32_t>& ids) {
  const auto eos = tokenizer.eos();
  if (const auto bos = tokenizer.bos()) ids.push_back(*bos);
  tokenizer.encode(eos ? strip_separator(document) : document, ids);
  if (eos && (ids.empty() || ids.back() != *eos)) ids.push_back(*eos);
}

int64_t total_bytes(const std::vector<std::filesystem::path>& files) {
  int64_t sum = 0;
  for (const auto& path : files) {
    std::error_code error;
    const auto size = std::filesystem::file_size(path, error);
    if (!error) sum += static_cast<int64_t>(size);  // read_file says what is wrong with the others
  }
  return sum;
}

std::string list(const std::vector<std::filesystem::path>& files) {
  std::string names;
  const size_t shown = std::min<size_t>(files.size(), 3);
  for (size_t i = 0; i < shown; ++i) names += fmt::format("{}'{}'", i == 0 ? "" : ", ", files[i].string());
  if (files.size() > shown) names += fmt::format(" and {} more", files.size() - shown);
  return names;
}

}  // namespace

int64_t TokenizedText::bytes() const {
  int64_t sum = 0;
  for (const TextFile& file : files) sum += file.bytes;
  return sum;
}

TokenizedText tokenize_text(const std::vector<std::filesystem::path>& files, DocumentSeparator separator,
                            const Tokenizer& tokenizer) {
  TokenizedText text{{}, {0}, TokenStore(tokenizer.vocab_size())};
  // One id a byte is exact for the bytes tokenizer and more than others make; pages that are not needed are never
  // touched.
  const int64_t bytes_in_all = total_bytes(files);
  text.tokens.reserve(bytes_in_all);
  if (tokenizer.requires_utf8() && bytes_in_all > int64_t{4} << 20) {  // a second and more
    log::info("Encoding {} bytes of text with {}.", bytes_in_all, tokenizer.name());
  }
  std::vector<int32_t> ids;
  for (const auto& path : files) {
    const std::string bytes = detail::read_file(path, "text file");
    if (bytes.empty()) {
      log::warning("The text file '{}' is empty and is left out.", path.string());
      continue;
    }
    if (tokenizer.requires_utf8()) check_utf8(bytes, path, tokenizer);
    text.files.push_back({path, static_cast<int64_t>(bytes.size()), text.documents()});
    for_each_document(bytes, separator, [&](std::string_view document) {
      ids.clear();
      encode_document(document, tokenizer, ids);
      if (ids.empty()) return;
      text.tokens.append(ids);
      text.document_begin.push_back(text.tokens.size());
    });
  }
  if (text.documents() == 0) refuse("The text ({}) is empty: no document was found in it.", list(files));
  return text;
}

TokenizedText tokenize_text(const std::vector<std::string>& paths, DocumentSeparator separator,
                            const Tokenizer& tokenizer) {
  return tokenize_text(detail::list_text_files(paths), separator, tokenizer);
}

}  // namespace kvant::data
