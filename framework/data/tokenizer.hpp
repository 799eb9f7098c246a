// Room data: text becomes batches of token ids. Text files -> documents -> token ids (TokenizedText) -> a held-out part
// and a part for training (split) -> rows of max_target_length (packing) -> shuffled order (sampler) -> Batch.
// This header: text to token ids and back.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace kvant::data {

/// Tokenizers hold no state that a call changes: two threads may use one.
class Tokenizer {
 public:
  virtual ~Tokenizer() = default;

  /// As it is named in the log: "bytes", "sentencepiece (path)".
  virtual std::string name() const = 0;
  /// Ids are 0 … vocab_size() - 1.
  virtual int64_t vocab_size() const = 0;
  /// The tokens that begin and end every document; empty where the tokenizer has none.
  virtual std::optional<int32_t> bos() const { return std::nullopt; }
  virtual std::optional<int32_t> eos() const { return std::nullopt; }
  /// Whether encode() takes valid UTF-8 only; who calls it checks, since he knows the file and the offset.
  virtual bool requires_utf8() const = 0;

  /// Appends the ids of `text` to `ids`, without bos and eos.
  virtual void encode(std::string_view text, std::vector<int32_t>& ids) const = 0;
  /// The text of `ids`; an id outside of the vocabulary is an error.
  virtual std::string decode(std::span<const int32_t> ids) const = 0;
};

/// `type`: "bytes" (256 ids, every byte is valid, no bos and eos) or "sentencepiece" (`path` is a model file).
/// Refuses another type, a path that "bytes" does not read, a model that cannot be loaded, and a vocabulary larger than
/// `model_vocab_size`, the model's. A smaller one is legal: the remaining ids never occur.
std::unique_ptr<Tokenizer> make_tokenizer(std::string_view type, const std::string& path, int64_t model_vocab_size);

}  // namespace kvant::data
