#include "data/report.hpp"

#include "data/detail/utf8.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

namespace kvant::data {
namespace {

constexpr int64_t shown_documents = 3;  ///< whose ends are shown
constexpr int64_t shown_tokens = 12;    ///< of each side of an end

std::string on_one_line(const std::string& text) {
  std::string line;
  for (const char c : detail::printable(text)) line += c == '\n' ? std::string("\\n") : std::string(1, c);
  return line;
}

std::string id_or_none(std::optional<int32_t> id) { return id ? std::to_string(*id) : "none"; }

std::vector<int32_t> tokens_of(const TokenizedText& text, int64_t document, int64_t first, int64_t count) {
  return text.tokens.read(text.document_begin[static_cast<size_t>(document)] + first, count);
}

std::string part(const char* name, const TextDataset& dataset, const std::vector<int64_t>& documents,
                 const PackedRows& rows) {
  int64_t tokens = 0;
  for (const int64_t document : documents) tokens += dataset.text().document_size(document);
  const int64_t places = rows.rows() * rows.seq();
  const double filled = places == 0 ? 0.0 : 100.0 * static_cast<double>(rows.inputs()) / static_cast<double>(places);
  return fmt::format("{:<10}{:>12}{:>14}{:>12}{:>14}{:>9.1f}%\n", name, documents.size(), tokens, rows.rows(),
                     rows.valid_targets(), filled);
}

std::string counts(const TextDataset& dataset) {
  const TokenizedText& text = dataset.text();
  const Tokenizer& tokenizer = dataset.tokenizer();
  std::string lines;
  for (const TextFile& file : text.files) {
    if (&file - text.files.data() == 5) {
      lines += fmt::format("           and {} more files\n", text.files.size() - 5);
      break;
    }
    lines += fmt::format("file       {} ({} bytes)\n", file.path.string(), file.bytes);
  }
  lines += fmt::format("tokenizer  {}: {} ids, bos {}, eos {}\n", tokenizer.name(), tokenizer.vocab_size(),
                       id_or_none(tokenizer.bos()), id_or_none(tokenizer.eos()));
  lines += fmt::format("text       {} bytes, {} documents, {} tokens of {} bytes each\n", text.bytes(),
                       text.documents(), text.tokens.size(), text.tokens.bytes_per_token());
  lines += fmt::format("rows       {} tokens each\n\n", dataset.packed_train().seq());
  lines +=
      fmt::format("{:<10}{:>12}{:>14}{:>12}{:>14}{:>10}\n", "", "documents", "tokens", "rows", "targets", "filled");
  lines += part("training", dataset, dataset.split().train, dataset.packed_train());
  return lines + part("held out", dataset, dataset.split().eval, dataset.packed_eval());
}

std::string separators(const TextDataset& dataset) {
  const TokenizedText& text = dataset.text();
  const Tokenizer& tokenizer = dataset.tokenizer();
  const int64_t ends = std::min(shown_documents, text.documents());
  std::string lines =
      fmt::format("\nHow the first {} documents end (the last tokens of each | the first tokens of the next):\n", ends);
  for (int64_t document = 0; document < ends; ++document) {
    const int64_t size = text.document_size(document), last = std::min(size, shown_tokens);
    const auto before = tokens_of(text, document, size - last, last);
    std::vector<int32_t> after;
    if (document + 1 < text.documents())
      after = tokens_of(text, document + 1, 0, std::min(shown_tokens, text.document_size(document + 1)));
    lines += fmt::format("  {} tokens  \"{}\" | \"{}\"\n", size, on_one_line(tokenizer.decode(before)),
                         on_one_line(tokenizer.decode(after)));
    lines += fmt::format("    ids  {} | {}\n", fmt::join(before, " "), fmt::join(after, " "));
  }
  return lines;
}

std::string decoded_row(const TextDataset& dataset, const Batch& batch, int64_t row) {
  std::string lines;
  const int64_t begin = row * batch.seq;
  for (int64_t t = 0; t < batch.seq;) {
    const int32_t segment = batch.inputs_segmentation[static_cast<size_t>(begin + t)];
    int64_t end = t;
    while (end < batch.seq && batch.inputs_segmentation[static_cast<size_t>(begin + end)] == segment) ++end;
    if (segment == 0) {
      lines += fmt::format("  padding, {} tokens\n", end - t);
    } else {
      const auto ids = std::span(batch.inputs).subspan(static_cast<size_t>(begin + t), static_cast<size_t>(end - t));
      std::string text = detail::printable(dataset.tokenizer().decode(ids));
      while (text.ends_with('\n')) text.pop_back();
      lines += fmt::format("  document {}, {} tokens\n", segment, end - t);
      for (size_t at = 0; at <= text.size();) {
        const size_t stop = std::min(text.find('\n', at), text.size());
        lines += "    " + text.substr(at, stop - at) + "\n";
        at = stop + 1;
      }
    }
    t = end;
  }
  return lines;
}

}  // namespace

std::string report(const Dataset& dataset, int64_t rows) {
  Batch batch;
  dataset.fill_train({}, rows, batch);
  const auto* text = dynamic_cast<const TextDataset*>(&dataset);
  std::string lines = text == nullptr ? dataset.describe() + "\n" : counts(*text) + separators(*text);
  for (int64_t row = 0; row < rows; ++row) {
    lines += fmt::format("\nTraining row {}:\n", row);
    if (text != nullptr) {
      lines += decoded_row(*text, batch, row);
    } else {
      lines += fmt::format(
          "  ids {}\n",
          fmt::join(
              std::span(batch.inputs).subspan(static_cast<size_t>(row * batch.seq), static_cast<size_t>(batch.seq)),
              " "));
    }
  }
  return lines;
}

}  // namespace kvant::data
