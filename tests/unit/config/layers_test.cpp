// Layers: `extends` and --set.
#include "config/document.hpp"

#include "base/error.hpp"
#include "support/temporary_folder.hpp"

#include <catch2/catch_test_macros.hpp>
#include <catch2/matchers/catch_matchers_string.hpp>

#include <filesystem>
#include <string>

using Catch::Matchers::ContainsSubstring;
using Catch::Matchers::Equals;
using namespace kvant::config;
using kvant::test::TemporaryFolder;

namespace {

int64_t steps_with(const std::vector<std::string>& overrides) {
  Document document = Document::parse("[run]\nsteps = 3\n", "a.toml", overrides);
  const int64_t steps = document.section("run").take_int("steps", 1, at_least(1));
  document.finish();
  return steps;
}

std::string text_with(const std::string& override) {
  Document document = Document::parse("", "a.toml", {override});
  const std::string text = document.section("run").take<std::string>("text", "default");
  document.finish();
  return text;
}

}  // namespace

TEST_CASE("a file lies over the one that it extends, key by key, relative to itself") {
  TemporaryFolder folder;
  folder.write("base/ground.toml", "[run]\nsteps = 1\nseed = 1\ntext = \"ground\"\n");
  folder.write("base/middle.toml", "extends = \"ground.toml\"\n[run]\nsteps = 2\nseed = 2\n");
  const std::string top = folder.write("top.toml", "extends = \"base/middle.toml\"\n[run]\nsteps = 3\n");
  Document document = Document::read(top);
  Section run = document.section("run");
  CHECK(run.take<int64_t>("steps", 0) == 3);
  CHECK(run.take<int64_t>("seed", 0) == 2);
  CHECK(run.take<std::string>("text", "") == "ground");
  CHECK(to_string(run.place_of("text")) == (folder / "base/ground.toml").string() + ":4:8");
  document.finish();
}

TEST_CASE("a bad key of a base is reported with the base's name") {
  TemporaryFolder folder;
  const std::string base = folder.write("base.toml", "[run]\nsteps = 1\nsed = 1\n");
  const std::string top = folder.write("top.toml", "extends = \"base.toml\"\n");
  Document document = Document::read(top);
  document.section("run").take<int64_t>("steps", 0);
  REQUIRE_THROWS_WITH(document.finish(), ContainsSubstring(base + ":3:1: section [run] has no key 'sed'"));
}

TEST_CASE("files that extend one another in a circle are refused") {
  TemporaryFolder folder;
  const std::string a = folder.write("a.toml", "extends = \"b.toml\"\n");
  const std::string b = folder.write("b.toml", "extends = \"a.toml\"\n");
  REQUIRE_THROWS_WITH(Document::read(a),
                      ContainsSubstring("extend one another in a circle: ") && ContainsSubstring(b + ":1:11"));
  const std::string self = folder.write("self.toml", "extends = \"self.toml\"\n");
  REQUIRE_THROWS_WITH(Document::read(self), ContainsSubstring("circle"));
}

TEST_CASE("a file that is missing, a folder, or an extends of another type is refused") {
  TemporaryFolder folder;
  REQUIRE_THROWS_WITH(Document::read((folder / "no.toml").string()),
                      ContainsSubstring("there is no configuration file " + (folder / "no.toml").string()));
  REQUIRE_THROWS_WITH(Document::read(folder.path().string()), ContainsSubstring("is a folder"));
  const std::string top = folder.write("top.toml", "extends = \"no.toml\"\n");
  REQUIRE_THROWS_WITH(Document::read(top), ContainsSubstring("no.toml (" + top + ":1:11 extends it)"));
  const std::string list = folder.write("list.toml", "extends = [\"a.toml\"]\n");
  REQUIRE_THROWS_WITH(Document::read(list),
                      ContainsSubstring("extends names one file, so it is a string; found a list of 1"));
  const std::string deep = folder.write("deep.toml", "[run]\nextends = \"a.toml\"\n");
  Document document = Document::read(deep);
  document.section("run").take<int64_t>("steps", 0);
  REQUIRE_THROWS_WITH(document.finish(), ContainsSubstring("section [run] has no key 'extends'"));
}

TEST_CASE("an override wins over the files, the last one over the others") {
  CHECK(steps_with({}) == 3);
  CHECK(steps_with({"run.steps=5"}) == 5);
  CHECK(steps_with({"run.steps=5", "run.steps = 6"}) == 6);
}

TEST_CASE("the value of an override is TOML, or a bare word that stands for a string") {
  CHECK(text_with("run.text=\"with spaces\"") == "with spaces");
  CHECK(text_with("run.text=int8_full") == "int8_full");
  CHECK(text_with("run.text=fixed,-224,224") == "fixed,-224,224");
  CHECK(text_with("run.text=/some/where.txt") == "/some/where.txt");
  CHECK(text_with("run.text=a=b") == "a=b");
  CHECK(text_with("run.text=a#b") == "a#b");
  CHECK(text_with("run.text=3#b") == "3#b");
  CHECK(text_with("run.text=") == "");
  CHECK(text_with("run.text=''") == "");
}

TEST_CASE("an override is checked like the file, and named in the error") {
  REQUIRE_THROWS_WITH(
      steps_with({"run.steps=abc"}),
      Equals("--set run.steps=abc: steps in section [run] must be an integer; found the string \"abc\""));
  REQUIRE_THROWS_WITH(steps_with({"run.steps=0"}),
                      Equals("--set run.steps=0: steps in section [run] must be at least 1; found 0"));
  REQUIRE_THROWS_WITH(steps_with({"run.stps=4"}),
                      Equals("--set run.stps=4: section [run] has no key 'stps'; did you mean 'steps'?"));
  REQUIRE_THROWS_WITH(steps_with({"steps=4"}),
                      Equals("--set steps=4: the key 'steps' stands in no section; this key exists in section [run]"));
  REQUIRE_THROWS_WITH(steps_with({"run.steps=[1, 2]"}), ContainsSubstring("found a list of 2"));
}

TEST_CASE("a number that 64 bits cannot hold is called one, with what is accepted; what only looks like one stays a word") {
  for (const std::string number : {"9223372036854775808", "-9223372036854775809", "+99_999_999_999_999_999_999",
                                   "0x1_0000_0000_0000_0000", "0o7777777777777777777777"})
    for (const std::string space : {"", " "})
      REQUIRE_THROWS_WITH(steps_with({"run.steps=" + space + number + space}),
                          ContainsSubstring("steps in section [run] must be an integer, at least 1; found the integer " +
                                            number + ", which does not fit 64 bits"));
  CHECK(steps_with({"run.steps=9223372036854775807"}) == 9223372036854775807);
  REQUIRE_THROWS_WITH(steps_with({"run.steps=-1.5e+999"}),
                      ContainsSubstring("must be an integer, at least 1; found the number -1.5e+999, which is beyond what 64 bits hold"));
  REQUIRE_THROWS_WITH(text_with("run.text=99999999999999999999"),
                      ContainsSubstring("must be a string; found the integer 99999999999999999999, which does not fit 64 bits"));
  const auto rate = [](const std::string& value) {
    Document document = Document::parse("", "a.toml", {"run.rate=" + value});
    document.section("run").take_real("rate", 0.5, above(0.0));
    document.finish();
  };
  REQUIRE_THROWS_WITH(rate("1e400"), ContainsSubstring("must be a finite number, above 0; found the number 1e400, which is beyond"));
  for (const std::string word : {"0099999999999999999999", "99999999999999999999x", "9_", "99999999999999999999__9", "0x", "0xg", "1.e400", "1e", "-", "1.5.5", "99999999999999999999-1"})
    CHECK(text_with("run.text=" + word) == word);
}

TEST_CASE("what is no override is refused") {
  REQUIRE_THROWS_WITH(steps_with({"run.steps"}),
                      ContainsSubstring("--set run.steps: an override is written section.key=value"));
  REQUIRE_THROWS_WITH(steps_with({"=3"}), ContainsSubstring("an override is written section.key=value"));
  REQUIRE_THROWS_WITH(steps_with({"#=3"}), ContainsSubstring("an override is written section.key=value"));
  REQUIRE_THROWS_WITH(steps_with({"run..steps=3"}), ContainsSubstring("'run..steps' is no key"));
  REQUIRE_THROWS_WITH(steps_with({"run.steps=[1"}), ContainsSubstring("the value is not TOML"));
  REQUIRE_THROWS_WITH(steps_with({"run.text=\"open"}), ContainsSubstring("the value is not TOML"));
  REQUIRE_THROWS_WITH(steps_with({"run.steps=1\n2"}), ContainsSubstring("an override is one line"));
  REQUIRE_THROWS_WITH(steps_with({"extends=\"x.toml\""}), ContainsSubstring("only a file can extend another"));
}

TEST_CASE("a relative path belongs to the file that says it, in an override to the working directory") {
  TemporaryFolder folder;
  folder.write("base/base.toml", "[data]\npath = \"text.txt\"\nmore = [\"one.txt\", \"/two.txt\"]\n");
  const std::string top = folder.write("top.toml", "extends = \"base/base.toml\"\n");
  Document document = Document::read(top);
  Section data = document.section("data");
  CHECK(data.take_path("path", "") == (folder / "base/text.txt").string());
  CHECK(data.take_paths("more", {}) == std::vector<std::string>{(folder / "base/one.txt").string(), "/two.txt"});
  CHECK(data.take_path("none", "") == "");
  document.finish();

  Document other = Document::read(top, {"data.path=text.txt", "data.more="});
  Section changed = other.section("data");
  CHECK(changed.take_path("path", "") == (std::filesystem::current_path() / "text.txt").string());
  CHECK(changed.take_paths("more", {}) == std::vector<std::string>{""});
}
