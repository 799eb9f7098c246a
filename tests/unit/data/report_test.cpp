#include "data/report.hpp"
#include "support/sentencepiece_model.hpp"
#include "support/temporary_folder.hpp"

#include <catch2/catch_test_macros.hpp>
#include <catch2/matchers/catch_matchers_string.hpp>

using Catch::Matchers::ContainsSubstring;
using kvant::config::Settings;
using kvant::test::TemporaryFolder;

namespace {

Settings settings_for(const std::string& path, int64_t vocab_size) {
  Settings settings;
  settings.model.vocab_size = vocab_size;
  settings.model.max_target_length = 16;
  settings.data.dataset_path = {path};
  settings.data.document_separator = "blank_line";
  settings.data.eval_fraction = 0.25;
  settings.data.global_batch_size = 1;
  return settings;
}

}  // namespace

TEST_CASE("bytes: the report has counts, separators and rows as text") {
  const TemporaryFolder folder;
  const std::string path = folder.write("text", "one\x1B!\n\ntwo two\n\nthree\n\nfour four\n");
  const std::string text = kvant::data::report(*kvant::data::make_dataset(settings_for(path, 256)), 2);
  CHECK_THAT(text, ContainsSubstring("file       " + path + " (33 bytes)"));
  CHECK_THAT(text, ContainsSubstring("tokenizer  bytes: 256 ids, bos none, eos none"));
  CHECK_THAT(text, ContainsSubstring("33 bytes, 4 documents, 33 tokens of 2 bytes each"));
  CHECK_THAT(text, ContainsSubstring("7 tokens  \"one\\x1b!\\n\\n\" | \"two two\\n\\n\""));
  CHECK_THAT(text, ContainsSubstring("ids  111 110 101 27 33 10 10 | 116 119"));
  CHECK_THAT(text, ContainsSubstring("Training row 1:\n  document 1, "));
  CHECK_THAT(text, ContainsSubstring("padding, "));
  CHECK(text.find('\x1B') == std::string::npos);
}

TEST_CASE("SentencePiece: the separators are the tokenizer's own") {
  const TemporaryFolder folder;
  Settings settings = settings_for(folder.write("text", "one\n\ntwo\n\none\n\ntwo\n\none\n\ntwo\n\none\n"), 261);
  settings.data.tokenizer_type = "sentencepiece";
  settings.data.tokenizer_path =
      folder.write("tiny.model", kvant::test::sentencepiece_model({.words = {"one", "two"}}));
  settings.model.max_target_length = 8;
  const std::string text = kvant::data::report(*kvant::data::make_dataset(settings), 1);
  CHECK_THAT(text, ContainsSubstring("261 ids, bos 1, eos 2"));
  CHECK_THAT(text, ContainsSubstring("ids  1 259 2 | 1 260 2"));
  CHECK_THAT(text, ContainsSubstring("held out             2"));
}

TEST_CASE("synthetic data are reported as ids") {
  Settings settings = settings_for("", 100);
  settings.data.dataset_path.clear();
  settings.data.dataset_type = "synthetic";
  const std::string text = kvant::data::report(*kvant::data::make_dataset(settings), 1);
  CHECK_THAT(text, ContainsSubstring("Synthetic data: the same 1 rows of 16 random tokens"));
  CHECK_THAT(text, ContainsSubstring("Training row 0:\n  ids "));
}
