#include "data/tokenizer.hpp"
#include "base/error.hpp"
#include "support/sentencepiece_model.hpp"
#include "support/temporary_folder.hpp"

#include <catch2/catch_test_macros.hpp>
#include <catch2/matchers/catch_matchers_exception.hpp>
#include <catch2/matchers/catch_matchers_string.hpp>

using Catch::Matchers::ContainsSubstring;
using Catch::Matchers::MessageMatches;
using kvant::UsageError;
using kvant::data::make_tokenizer;
using kvant::test::sentencepiece_model;
using Ids = std::vector<int32_t>;

namespace {

Ids encode(const kvant::data::Tokenizer& tokenizer, std::string_view text) {
  Ids ids;
  tokenizer.encode(text, ids);
  return ids;
}

}  // namespace

TEST_CASE("bytes: every byte is its own id and comes back") {
  const auto tokenizer = make_tokenizer("bytes", "", 256);
  CHECK(tokenizer->vocab_size() == 256);
  CHECK_FALSE(tokenizer->requires_utf8());
  CHECK_FALSE(tokenizer->bos().has_value());
  CHECK_FALSE(tokenizer->eos().has_value());
  std::string all;
  for (int i = 0; i < 256; ++i) all.push_back(static_cast<char>(i));
  const Ids ids = encode(*tokenizer, all);
  REQUIRE(ids.size() == 256);
  for (int i = 0; i < 256; ++i) CHECK(ids[static_cast<size_t>(i)] == i);
  CHECK(tokenizer->decode(ids) == all);
  CHECK_THROWS_MATCHES(tokenizer->decode(Ids{256}), kvant::Error,
                       MessageMatches(ContainsSubstring("256") && ContainsSubstring("0 to 255")));
  CHECK_THROWS_AS(tokenizer->decode(Ids{-1}), kvant::Error);
}

TEST_CASE("SentencePiece: pieces, bytes and the special ids are those of the model file") {
  const kvant::test::TemporaryFolder folder;
  const std::string path =
      folder.write("tiny.model", sentencepiece_model({.words = {"hello", "\xE2\x96\x81world", "\xE2\x96\x81"}}));
  const auto tokenizer = make_tokenizer("sentencepiece", path, 262);
  CHECK(tokenizer->vocab_size() == 262);
  CHECK(tokenizer->requires_utf8());
  CHECK(tokenizer->bos() == 1);
  CHECK(tokenizer->eos() == 2);
  CHECK(tokenizer->name() == "sentencepiece (" + path + ")");
  CHECK(encode(*tokenizer, "hello world") == Ids{259, 260});
  CHECK(encode(*tokenizer, "A\n") == Ids{3 + 'A', 3 + '\n'});
  const std::string text = "hello world caf\xC3\xA9\n";
  CHECK(tokenizer->decode(encode(*tokenizer, text)) == text);
  CHECK_THROWS_MATCHES(tokenizer->decode(Ids{262}), kvant::Error,
                       MessageMatches(ContainsSubstring("262") && ContainsSubstring("0 to 261")));
}

TEST_CASE("SentencePiece: a model without bos and eos has none") {
  const kvant::test::TemporaryFolder folder;
  const auto tokenizer = make_tokenizer(
      "sentencepiece",
      folder.write("plain.model", sentencepiece_model({.words = {}, .has_eos = false, .has_bos = false})), 259);
  CHECK_FALSE(tokenizer->bos().has_value());
  CHECK_FALSE(tokenizer->eos().has_value());
}

TEST_CASE("a vocabulary larger than the model's is refused with both numbers, a smaller one is legal") {
  CHECK_THROWS_MATCHES(make_tokenizer("bytes", "", 255), UsageError,
                       MessageMatches(ContainsSubstring("256") && ContainsSubstring("255")));
  CHECK(make_tokenizer("bytes", "", 512)->vocab_size() == 256);
  const kvant::test::TemporaryFolder folder;
  const std::string path = folder.write("tiny.model", sentencepiece_model({.words = {"a"}}));
  CHECK_THROWS_MATCHES(make_tokenizer("sentencepiece", path, 259), UsageError,
                       MessageMatches(ContainsSubstring("260 ids") && ContainsSubstring("vocab_size is 259")));
}

TEST_CASE("tokenizers that cannot be made are refused in a sentence") {
  const kvant::test::TemporaryFolder folder;
  CHECK_THROWS_MATCHES(make_tokenizer("tiktoken", "", 256), UsageError,
                       MessageMatches(ContainsSubstring("\"tiktoken\"") && ContainsSubstring("\"sentencepiece\"")));
  CHECK_THROWS_MATCHES(make_tokenizer("bytes", "some.model", 256), UsageError,
                       MessageMatches(ContainsSubstring("'some.model'")));
  CHECK_THROWS_MATCHES(make_tokenizer("sentencepiece", "", 256), UsageError,
                       MessageMatches(ContainsSubstring("needs tokenizer_path")));
  const std::string missing = (folder / "missing.model").string();
  CHECK_THROWS_MATCHES(make_tokenizer("sentencepiece", missing, 256), UsageError,
                       MessageMatches(ContainsSubstring(missing) && ContainsSubstring("No such file")));
  const std::string wrong = folder.write("wrong.model", "this is no protocol buffer");
  CHECK_THROWS_MATCHES(make_tokenizer("sentencepiece", wrong, 256), UsageError,
                       MessageMatches(ContainsSubstring(wrong) && ContainsSubstring("no SentencePiece model")));
  CHECK_THROWS_MATCHES(make_tokenizer("sentencepiece", folder.write("empty.model", ""), 256), UsageError,
                       MessageMatches(ContainsSubstring("(0 bytes) is no SentencePiece model")));
}
