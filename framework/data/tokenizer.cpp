#include "data/tokenizer.hpp"

#include "base/error.hpp"
#include "data/detail/sentencepiece_tokenizer.hpp"

namespace kvant::data {
namespace {

class BytesTokenizer final : public Tokenizer {
 public:
  std::string name() const override { return "bytes"; }
  int64_t vocab_size() const override { return 256; }
  bool requires_utf8() const override { return false; }

  void encode(std::string_view text, std::vector<int32_t>& ids) const override {
    ids.reserve(ids.size() + text.size());
    for (const char c : text) ids.push_back(static_cast<unsigned char>(c));
  }

  std::string decode(std::span<const int32_t> ids) const override {
    std::string text;
    text.reserve(ids.size());
    for (const int32_t id : ids) {
      require(id >= 0 && id < 256, "Token id {} cannot be decoded: the bytes tokenizer has ids 0 to 255.", id);
      text.push_back(static_cast<char>(id));
    }
    return text;
  }
};

}  // namespace

std::unique_ptr<Tokenizer> make_tokenizer(std::string_view type, const std::string& path, int64_t model_vocab_size) {
  std::unique_ptr<Tokenizer> tokenizer;
  if (type == "bytes") {
    if (!path.empty()) refuse("tokenizer_path is '{}', but tokenizer_type \"bytes\" reads no file.", path);
    tokenizer = std::make_unique<BytesTokenizer>();
  } else if (type == "sentencepiece") {
    if (path.empty())
      refuse("tokenizer_type \"sentencepiece\" needs tokenizer_path, the path of a SentencePiece model file.");
    tokenizer = detail::load_sentencepiece(path);
  } else {
    refuse("tokenizer_type is \"{}\"; \"bytes\" and \"sentencepiece\" are known.", type);
  }
  if (tokenizer->vocab_size() > model_vocab_size) {
    refuse("The tokenizer {} has {} ids, but the model's vocab_size is {}: ids {} to {} would have no embedding.",
           tokenizer->name(), tokenizer->vocab_size(), model_vocab_size, model_vocab_size, tokenizer->vocab_size() - 1);
  }
  return tokenizer;
}

}  // namespace kvant::data
