#include "data/detail/sentencepiece_tokenizer.hpp"

#include "base/error.hpp"
#include "data/detail/files.hpp"

#include <sentencepiece_processor.h>

namespace kvant::data::detail {
namespace {

std::optional<int32_t> id_or_none(int id) { return id < 0 ? std::nullopt : std::optional<int32_t>(id); }

/// The library's messages end with a full stop or without.
std::string sentence(const sentencepiece::util::Status& status) {
  std::string message = status.message();
  if (!message.ends_with('.')) message += '.';
  return message;
}

class SentencePieceTokenizer final : public Tokenizer {
 public:
  explicit SentencePieceTokenizer(const std::string& path) : path_(path) {
    // Read here and not by the library, whose own loader prints to stderr and names no reason.
    const std::string bytes = read_file(path, "tokenizer model");
    const auto status = processor_.LoadFromSerializedProto(bytes);
    if (!status.ok())
      refuse("The file '{}' ({} bytes) is no SentencePiece model: {}", path, bytes.size(), sentence(status));
  }

  std::string name() const override { return "sentencepiece (" + path_ + ")"; }
  int64_t vocab_size() const override { return processor_.GetPieceSize(); }
  std::optional<int32_t> bos() const override { return id_or_none(processor_.bos_id()); }
  std::optional<int32_t> eos() const override { return id_or_none(processor_.eos_id()); }
  bool requires_utf8() const override { return true; }

  void encode(std::string_view text, std::vector<int32_t>& ids) const override {
    std::vector<int> encoded;
    const auto status = processor_.Encode(text, &encoded);
    if (!status.ok()) fail("SentencePiece cannot encode a text of {} bytes: {}", text.size(), sentence(status));
    ids.insert(ids.end(), encoded.begin(), encoded.end());
  }

  std::string decode(std::span<const int32_t> ids) const override {
    for (const int32_t id : ids) {
      require(id >= 0 && id < vocab_size(), "Token id {} cannot be decoded: {} has ids 0 to {}.", id, name(),
              vocab_size() - 1);
    }
    std::string text;
    const auto status = processor_.Decode(std::vector<int>(ids.begin(), ids.end()), &text);
    if (!status.ok()) fail("SentencePiece cannot decode {} ids: {}", ids.size(), sentence(status));
    return text;
  }

 private:
  std::string path_;
  sentencepiece::SentencePieceProcessor processor_;
};

}  // namespace

std::unique_ptr<Tokenizer> load_sentencepiece(const std::string& path) {
  return std::make_unique<SentencePieceTokenizer>(path);
}

}  // namespace kvant::data::detail
