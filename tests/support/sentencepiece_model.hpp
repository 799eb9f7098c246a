// A SentencePiece model file written by hand, so that the tests need neither a trained model nor the trainer. The file
// is a protocol buffer: pieces (field 1: text 1, score 2, type 3), trainer settings (field 2), normalizer (field 3).
#pragma once

#include <cstdint>
#include <cstring>
#include <string>
#include <string_view>
#include <vector>

namespace kvant::test {

struct SentencePieceOptions {
  std::vector<std::string> words;  ///< pieces beside the special ones; "\xE2\x96\x81" stands for a space
  bool has_eos = true, has_bos = true;
};

namespace protobuf {

inline std::string varint(uint64_t value) {
  std::string bytes;
  for (; value >= 0x80; value >>= 7) bytes.push_back(static_cast<char>(value | 0x80));
  bytes.push_back(static_cast<char>(value));
  return bytes;
}
inline std::string integer(int field, int64_t value) {
  return varint(static_cast<uint64_t>(field) << 3) + varint(static_cast<uint64_t>(value));
}
inline std::string text(int field, std::string_view bytes) {
  return varint(static_cast<uint64_t>(field) << 3 | 2) + varint(bytes.size()) + std::string(bytes);
}
inline std::string number(int field, float value) {
  std::string bytes = varint(static_cast<uint64_t>(field) << 3 | 5);
  char raw[sizeof value];
  std::memcpy(raw, &value, sizeof value);
  return bytes.append(raw, sizeof value);
}

}  // namespace protobuf

/// The bytes of a unigram model with byte fallback: id 0 <unk>, 1 <s>, 2 </s> (<s> and </s> are ordinary unused pieces
/// where the options take them away), then 256 bytes, then the words; no normalization, no added space.
inline std::string sentencepiece_model(const SentencePieceOptions& options) {
  using namespace protobuf;
  enum Type { normal = 1, unknown = 2, control = 3, unused = 5, byte = 6 };
  std::string model;
  const auto piece = [&](std::string_view name, float score, Type type) {
    model += text(1, text(1, name) + number(2, score) + integer(3, type));
  };
  piece("<unk>", 0.0f, unknown);
  piece("<s>", 0.0f, options.has_bos ? control : unused);
  piece("</s>", 0.0f, options.has_eos ? control : unused);
  const char* digits = "0123456789ABCDEF";
  for (int value = 0; value < 256; ++value) {
    piece(std::string("<0x") + digits[value / 16] + digits[value % 16] + ">", -20.0f, byte);
  }
  for (const std::string& word : options.words) piece(word, -1.0f, normal);
  const auto size = static_cast<int64_t>(259 + options.words.size());
  // trainer: model_type 3 (1 = unigram), vocab_size 4, byte_fallback 35, ids of unk 40, bos 41, eos 42, pad 43
  model += text(2, integer(3, 1) + integer(4, size) + integer(35, 1) + integer(40, 0) +
                       integer(41, options.has_bos ? 1 : -1) + integer(42, options.has_eos ? 2 : -1) + integer(43, -1));
  // normalizer: name 1, add_dummy_prefix 3, remove_extra_whitespaces 4, escape_whitespaces 5
  model += text(3, text(1, "identity") + integer(3, 0) + integer(4, 0) + integer(5, 1));
  return model;
}

}  // namespace kvant::test
