// docs/configuration.md says what the readers say. KVANT_UPDATE_DOCS=1 writes the tables anew instead of comparing.
#include "config/reference.hpp"

#include "config/settings.hpp"
#include "support/temporary_folder.hpp"

#include <catch2/catch_test_macros.hpp>
#include <catch2/matchers/catch_matchers_string.hpp>

#include <cstdlib>
#include <fstream>
#include <string>

using namespace kvant::config;

TEST_CASE("the tables hold type, range, default, unit and meaning") {
  Document document = Document::parse("", "");
  Section run = document.section("run");
  run.require_int({"steps", "how many", "steps"}, at_least(1));
  run.take_choice({"kind", "a | b"}, "x", {"x", "y"});
  CHECK(reference_of(document.keys()) ==
        "## [run]\n\n| key | type | default | unit | meaning |\n|---|---|---|---|---|\n"
        "| `steps` | integer, at least 1 | required | steps | how many |\n"
        "| `kind` | string: \"x\" or \"y\" | `\"x\"` |  | a \\| b |\n");
}

TEST_CASE("docs/configuration.md has every key as the reader declares it") {
  const std::string file = KVANT_SOURCE_DIR "/docs/configuration.md";
  const std::string begin = "<!-- begin of the generated tables -->\n";
  const std::string end = "<!-- end of the generated tables -->\n";
  Document document = Document::parse("", "");
  read_settings(document);
  const std::string wanted = begin + "\n" + reference_of(document.keys()) + "\n" + end;

  const std::string text = kvant::test::TemporaryFolder::read(file);
  const size_t from = text.find(begin);
  const size_t to = text.find(end);
  REQUIRE(from != std::string::npos);
  REQUIRE(to != std::string::npos);
  if (std::getenv("KVANT_UPDATE_DOCS") != nullptr) {
    std::ofstream(file, std::ios::binary) << text.substr(0, from) << wanted << text.substr(to + end.size());
    return;
  }
  INFO("KVANT_UPDATE_DOCS=1 kvant_test_config writes the tables anew");
  CHECK(text.substr(from, to + end.size() - from) == wanted);
}
