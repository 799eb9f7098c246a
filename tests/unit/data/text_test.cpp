#include "data/text.hpp"
#include "base/error.hpp"
#include "base/log.hpp"
#include "support/sentencepiece_model.hpp"
#include "support/temporary_folder.hpp"

#include <catch2/catch_test_macros.hpp>
#include <catch2/matchers/catch_matchers_exception.hpp>
#include <catch2/matchers/catch_matchers_string.hpp>

using namespace kvant::data;
using Catch::Matchers::ContainsSubstring;
using Catch::Matchers::MessageMatches;
using kvant::UsageError;
using Ids = std::vector<int32_t>;
using Paths = std::vector<std::string>;

namespace {

Ids document(const TokenizedText& text, int64_t d) {
  return text.tokens.read(text.document_begin[static_cast<size_t>(d)], text.document_size(d));
}

}  // namespace

TEST_CASE("bytes: documents joined are the files, byte for byte, valid UTF-8 or not") {
  const kvant::test::TemporaryFolder folder;
  const std::string first = "one\n\ntwo \x92 quoted\n", second = "three";
  const auto tokenizer = make_tokenizer("bytes", "", 256);
  const auto text = tokenize_text(Paths{folder.write("a", first), folder.write("b", second)},
                                  DocumentSeparator::blank_line, *tokenizer);
  CHECK(text.documents() == 3);
  CHECK(tokenizer->decode(text.tokens.read(0, text.tokens.size())) == first + second);
  CHECK(tokenizer->decode(document(text, 1)) == "two \x92 quoted\n");
  CHECK(text.tokens.bytes_per_token() == 2);
  REQUIRE(text.files.size() == 2);
  CHECK(text.files[1].first_document == 2);
  CHECK(text.bytes() == static_cast<int64_t>(first.size() + second.size()));
}

TEST_CASE("SentencePiece: a document begins with bos and ends with one eos, without its blank lines") {
  const kvant::test::TemporaryFolder folder;
  const auto tokenizer = make_tokenizer(
      "sentencepiece", folder.write("tiny.model", kvant::test::sentencepiece_model({.words = {"one", "two"}})), 261);
  const auto text =
      tokenize_text(Paths{folder.write("a.txt", "one\n\n\ntwo\n")}, DocumentSeparator::blank_line, *tokenizer);
  REQUIRE(text.documents() == 2);
  CHECK(document(text, 0) == Ids{1, 259, 2});
  CHECK(document(text, 1) == Ids{1, 260, 2});
}

TEST_CASE("SentencePiece: without eos the blank lines stay, since they are what ends a document") {
  const kvant::test::TemporaryFolder folder;
  const std::string model =
      kvant::test::sentencepiece_model({.words = {"one", "two"}, .has_eos = false, .has_bos = false});
  const auto tokenizer = make_tokenizer("sentencepiece", folder.write("plain.model", model), 261);
  const auto text =
      tokenize_text(Paths{folder.write("a.txt", "one\n\ntwo\n")}, DocumentSeparator::blank_line, *tokenizer);
  CHECK(document(text, 0) == Ids{259, 3 + '\n', 3 + '\n'});
}

namespace {

/// Encodes one byte a token and takes 'E' for its own eos, as a text does that holds the separator already.
struct EndsWithEos final : Tokenizer {
  std::string name() const override { return "test"; }
  int64_t vocab_size() const override { return 256; }
  std::optional<int32_t> eos() const override { return 'E'; }
  bool requires_utf8() const override { return false; }
  void encode(std::string_view text, Ids& ids) const override { ids.insert(ids.end(), text.begin(), text.end()); }
  std::string decode(std::span<const int32_t>) const override { return {}; }
};

}  // namespace

TEST_CASE("a document that already ends with eos does not get two") {
  const kvant::test::TemporaryFolder folder;
  const auto text =
      tokenize_text(Paths{folder.write("a", "oneE\n\ntwo\n")}, DocumentSeparator::blank_line, EndsWithEos());
  CHECK(document(text, 0) == Ids{'o', 'n', 'e', 'E'});
  CHECK(document(text, 1) == Ids{'t', 'w', 'o', 'E'});
}

TEST_CASE("text that is not UTF-8 is refused with file, offset and line where the tokenizer needs it") {
  const kvant::test::TemporaryFolder folder;
  const auto tokenizer = make_tokenizer(
      "sentencepiece", folder.write("tiny.model", kvant::test::sentencepiece_model({.words = {"first"}})), 260);
  const std::string good = folder.write("good.txt", "caf\xC3\xA9"),
                    bad = folder.write("bad.txt", "first\nsec\x92ond\n");
  CHECK_THROWS_MATCHES(tokenize_text(Paths{good, bad}, DocumentSeparator::file, *tokenizer), UsageError,
                       MessageMatches(ContainsSubstring(bad) && ContainsSubstring("at byte 9 (line 2, value 0x92)")));
}

TEST_CASE("an empty file among others is left out with a warning, a text of empty files is refused") {
  const kvant::test::TemporaryFolder folder;
  const std::string empty = folder.write("empty.txt", ""), blank = folder.write("blank.txt", "\n \n"),
                    full = folder.write("full.txt", "x y");
  const std::string log_file = (folder / "log.txt").string();
  kvant::log::configure(kvant::log::Level::info, log_file);
  const auto tokenizer = make_tokenizer("bytes", "", 256);
  const auto text = tokenize_text(Paths{empty, full}, DocumentSeparator::entry, *tokenizer);
  CHECK(text.documents() == 1);
  CHECK(text.files.size() == 1);
  kvant::log::flush();
  CHECK_THAT(kvant::test::TemporaryFolder::read(log_file),
             ContainsSubstring("'" + empty + "' is empty and is left out"));
  CHECK_THROWS_MATCHES(
      tokenize_text(Paths{empty, blank}, DocumentSeparator::entry, *tokenizer), UsageError,
      MessageMatches(ContainsSubstring(empty) && ContainsSubstring(blank) && ContainsSubstring("is empty")));
  CHECK_THROWS_MATCHES(tokenize_text(Paths{(folder / "gone").string()}, DocumentSeparator::entry, *tokenizer),
                       UsageError, MessageMatches(ContainsSubstring("does not exist")));
}
