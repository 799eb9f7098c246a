#include "data/documents.hpp"
#include "base/error.hpp"

#include <catch2/catch_test_macros.hpp>
#include <catch2/matchers/catch_matchers_exception.hpp>
#include <catch2/matchers/catch_matchers_string.hpp>
#include <string>
#include <vector>

using namespace kvant::data;

namespace {

std::vector<std::string> cut(std::string_view text, DocumentSeparator separator) {
  std::vector<std::string> documents;
  for_each_document(text, separator, [&](std::string_view document) { documents.emplace_back(document); });
  std::string joined;
  for (const auto& document : documents) joined += document;
  if (!documents.empty()) CHECK(joined == text);  // not a byte is lost
  return documents;
}

using Strings = std::vector<std::string>;

}  // namespace

TEST_CASE("an entry keeps its indented paragraphs") {
  const char* text = "Abacus \\n.\\\n   A frame.\n\n   Note: old.\n\nAbaft\n   Behind.\n \t\r\n\nAbb\n   Yarn.";
  CHECK(cut(text, DocumentSeparator::entry) ==
        Strings{"Abacus \\n.\\\n   A frame.\n\n   Note: old.\n\n", "Abaft\n   Behind.\n \t\r\n\n", "Abb\n   Yarn."});
}

TEST_CASE("blank lines cut paragraphs, whatever their indentation") {
  CHECK(cut("one\ntwo\n\n   three\n\n\nfour\n", DocumentSeparator::blank_line) ==
        Strings{"one\ntwo\n\n", "   three\n\n\n", "four\n"});
  CHECK(cut("a\r\n\r\nb", DocumentSeparator::blank_line) == Strings{"a\r\n\r\n", "b"});
}

TEST_CASE("a line break alone cuts nothing, and blank lines at the beginning belong to the first document") {
  CHECK(cut("one\ntwo", DocumentSeparator::entry) == Strings{"one\ntwo"});
  CHECK(cut("\n \nfirst\n\nsecond", DocumentSeparator::entry) == Strings{"\n \nfirst\n\n", "second"});
}

TEST_CASE("a file is one document, and a text without text is none") {
  CHECK(cut("one\n\ntwo\n\n", DocumentSeparator::file) == Strings{"one\n\ntwo\n\n"});
  for (const auto separator : {DocumentSeparator::entry, DocumentSeparator::blank_line, DocumentSeparator::file}) {
    CHECK(cut("", separator).empty());
    CHECK(cut("\n \n\t\n", separator).empty());
  }
}

TEST_CASE("the separator is stripped and nothing else") {
  CHECK(strip_separator("text\n\n \t\n") == "text");
  CHECK(strip_separator("text") == "text");
  CHECK(strip_separator("text  \n") == "text  ");
  CHECK(strip_separator("\n\ntext\nmore\n") == "\n\ntext\nmore");
}

TEST_CASE("separators have names, and others are refused") {
  for (const char* name : {"entry", "blank_line", "file"}) CHECK(to_string(parse_document_separator(name)) == name);
  CHECK_THROWS_MATCHES(parse_document_separator("line"), kvant::UsageError,
                       Catch::Matchers::MessageMatches(Catch::Matchers::ContainsSubstring("\"line\"") &&
                                                       Catch::Matchers::ContainsSubstring("\"blank_line\"")));
}
