// Strict reading: what nobody takes is refused, everything in one go, with the place and what was probably meant.
#include "config/document.hpp"

#include "base/error.hpp"

#include <catch2/catch_test_macros.hpp>
#include <catch2/matchers/catch_matchers_string.hpp>

#include <algorithm>
#include <string>

using Catch::Matchers::ContainsSubstring;
using Catch::Matchers::Equals;
using namespace kvant::config;

namespace {

/// The sections of a small program: what the tests below take.
struct Taken {
  int64_t steps = 0;
  double learning_rate = 0;
  double clipping = 0;
  std::string kind;
  std::vector<std::string> names;
  bool flag = false;
};

Taken take_all(Document& document) {
  Taken taken;
  Section run = document.section("run");
  taken.steps = run.take_int({"steps", "steps of the run", "steps"}, 7, at_least(1));
  taken.flag = run.take<bool>("flag", false);
  Section optimizer = document.section("optimizer");
  taken.learning_rate = optimizer.take_real("learning_rate", 0.5, between(0.0, 1.0));
  taken.clipping = optimizer.take_real("gradient_clipping", 1.0, above(0.0));
  taken.kind = optimizer.take_choice("kind", "adam", {"adam", "sgd", ""});
  taken.names = optimizer.take<std::vector<std::string>>("names", {});
  return taken;
}

std::string problems_of(const std::string& text, const std::vector<std::string>& overrides = {}) {
  Document document = Document::parse(text, "a.toml", overrides);
  take_all(document);
  try {
    document.finish();
  } catch (const kvant::UsageError& error) {
    return error.what();
  }
  return "";
}

size_t lines_of(const std::string& text) { return static_cast<size_t>(std::count(text.begin(), text.end(), '\n')) + 1; }

}  // namespace

TEST_CASE("values are read with their types, and defaults where nothing is said") {
  Document document = Document::parse(
      "[run]\nsteps = 3\n[optimizer]\nlearning_rate = 1\nkind = \"sgd\"\nnames = [\"a\", \"b\"]\n", "a.toml");
  const Taken taken = take_all(document);
  document.finish();
  CHECK(taken.steps == 3);
  CHECK(taken.learning_rate == 1.0);  // an integer is a number
  CHECK(taken.clipping == 1.0);
  CHECK(taken.kind == "sgd");
  CHECK(taken.names == std::vector<std::string>{"a", "b"});
  CHECK_FALSE(taken.flag);
}

TEST_CASE("D01: four bad keys give four lines with place, section and the nearest name") {
  const std::string text = problems_of(
      "learning_rate = 3e-4\n"
      "[optimizer]\n"
      "learning_rte = 3e-4\n"
      "[train]\n"
      "num-steps = 10\n"
      "gradient_clipp1ng = 1\n");
  CHECK(lines_of(text) == 5);
  CHECK_THAT(text, ContainsSubstring("4 problems in the configuration a.toml:"));
  CHECK_THAT(text,
             ContainsSubstring(
                 "a.toml:1:1: the key 'learning_rate' stands in no section; this key exists in section [optimizer]"));
  CHECK_THAT(text, ContainsSubstring(
                       "a.toml:3:1: section [optimizer] has no key 'learning_rte'; did you mean 'learning_rate'?"));
  CHECK_THAT(
      text,
      ContainsSubstring(
          "a.toml:5:1: unknown key 'num-steps': there is no section [train]; did you mean 'steps' of section [run]?"));
  CHECK_THAT(text, ContainsSubstring("a.toml:6:1: unknown key 'gradient_clipp1ng': there is no section [train]; did "
                                     "you mean 'gradient_clipping' of section [optimizer]?"));
}

TEST_CASE("a key with hyphens, in another case or in another section is recognised") {
  CHECK_THAT(problems_of("[optimizer]\nlearning-rate = 0.1\n"), ContainsSubstring("it is spelt 'learning_rate'"));
  CHECK_THAT(problems_of("[optimizer]\nLearning_Rate = 0.1\n"), ContainsSubstring("it is spelt 'learning_rate'"));
  CHECK_THAT(problems_of("[run]\nlearning_rate = 0.1\n"),
             ContainsSubstring(
                 "a.toml:2:1: section [run] has no key 'learning_rate'; this key exists in section [optimizer]"));
  CHECK_THAT(problems_of("[run]\nlearning-rate = 0.1\n"),
             ContainsSubstring("'learning_rate' exists in section [optimizer]"));
  CHECK_THAT(problems_of("[run]\nqqqqqqqqq = 0.1\n"), ContainsSubstring("valid are steps and flag"));
}

TEST_CASE("a section that nobody knows is refused, empty or not") {
  CHECK_THAT(problems_of("[optimiser]\n"),
             ContainsSubstring("a.toml:1:2: there is no section [optimiser]; did you mean [optimizer]?"));
  CHECK_THAT(problems_of("[weather]\n"), ContainsSubstring("valid are [run] and [optimizer]"));
  CHECK_THAT(problems_of("[run.deep]\nx = 1\n"), ContainsSubstring("unknown key 'x': there is no section [run.deep]"));
  CHECK_THAT(problems_of("run = 3\n"),
             ContainsSubstring("'run' is the section [run], so it is a table; found the integer 3"));
  CHECK_THAT(problems_of("[[run]]\nsteps = 1\n"),
             ContainsSubstring("'run' is the section [run], so it is a table; found a list of 1"));
}

TEST_CASE("types, ranges and choices are reported together with unknown keys") {
  const std::string text = problems_of(
      "[run]\nsteps = 0\nflag = \"yes\"\nstps = 4\n[optimizer]\nlearning_rate = 2.5\ngradient_clipping = 0.0\nkind = "
      "\"adm\"\nnames = [1]\n");
  CHECK(lines_of(text) == 8);
  CHECK_THAT(text, ContainsSubstring("a.toml:2:9: steps in section [run] must be at least 1 (steps); found 0"));
  CHECK_THAT(text,
             ContainsSubstring("a.toml:3:8: flag in section [run] must be true or false; found the string \"yes\""));
  CHECK_THAT(text, ContainsSubstring("a.toml:4:1: section [run] has no key 'stps'; did you mean 'steps'?"));
  CHECK_THAT(text,
             ContainsSubstring("learning_rate in section [optimizer] must be at least 0 and at most 1; found 2.5"));
  CHECK_THAT(text, ContainsSubstring("gradient_clipping in section [optimizer] must be above 0; found 0"));
  CHECK_THAT(
      text,
      ContainsSubstring(
          "kind in section [optimizer] must be \"adam\", \"sgd\" or \"\"; found \"adm\"; did you mean \"adam\"?"));
  CHECK_THAT(text, ContainsSubstring("names in section [optimizer] must be a list of strings; found a list of 1"));
}

TEST_CASE("a real number is no integer, a table no value, and infinity no number") {
  CHECK_THAT(problems_of("[run]\nsteps = 10.0\n"), ContainsSubstring("must be an integer; found the real number 10"));
  CHECK_THAT(problems_of("[run.steps]\n"), ContainsSubstring("must be an integer; found a table"));
  CHECK_THAT(problems_of("[run]\nsteps = 2024-01-01\n"), ContainsSubstring("found the date 2024-01-01"));
  CHECK_THAT(problems_of("[optimizer]\nlearning_rate = inf\n"),
             ContainsSubstring("must be a finite number; found the real number inf"));
  CHECK_THAT(problems_of("[optimizer]\nlearning_rate = nan\n"), ContainsSubstring("must be a finite number"));
  REQUIRE_THROWS_WITH(problems_of("[run]\nsteps = 99999999999999999999\n"),
                      ContainsSubstring("a.toml:2:") && ContainsSubstring("not representable"));
}

TEST_CASE("one value stands for a list of one") {
  Document document = Document::parse("[optimizer]\nnames = \"a\"\n", "a.toml");
  const Taken taken = take_all(document);
  document.finish();
  CHECK(taken.names == std::vector<std::string>{"a"});
}

TEST_CASE("a required key that is missing is named with its meaning") {
  Document document = Document::parse("[run]\n", "a.toml");
  Section run = document.section("run");
  run.require_int({"steps", "optimizer steps of the run", "steps"}, at_least(1));
  document.section("data").require<std::string>({"path", "where the text is"});
  REQUIRE_THROWS_WITH(
      document.finish(),
      ContainsSubstring("a.toml:1:2: section [run] needs the key 'steps' (optimizer steps of the run): an integer") &&
          ContainsSubstring("a.toml: section [data] needs the key 'path' (where the text is): a string"));
}

TEST_CASE("D02: a plugin's section is held to what the plugin declares") {
  Document document =
      Document::parse("[quant.plugins.my_scheme]\nblok = 128\n[quant.plugins.not_loaded]\nx = 1\n", "a.toml");
  document.section("quant");
  document.declare_family("quant.plugins", "plugin");
  CHECK(document.names_below("quant.plugins").size() == 2);
  Section mine = document.section("quant.plugins.my_scheme", "plugin 'my_scheme'");
  mine.take<int64_t>("block", 32);
  REQUIRE_THROWS_WITH(
      document.finish(),
      ContainsSubstring("a.toml:2:1: plugin 'my_scheme' has no key 'blok' (section [quant.plugins.my_scheme]); did you "
                        "mean 'block'?") &&
          ContainsSubstring(
              "a.toml:3:16: section [quant.plugins.not_loaded]: no plugin 'not_loaded' is loaded (loaded: my_scheme)"));
}

TEST_CASE("who knows why a plugin's section is not read says so; a plugin without settings has none; a value is no section") {
  Document document = Document::parse(
      "[quant.plugins.known]\nx = 1\n[quant.plugins.unknown]\n[quant.plugins.bare]\nx = 1\n[quant.plugins]\nvalue = 3\n", "a.toml");
  document.section("quant");
  document.declare_family("quant.plugins", "plugin");
  document.explain_unread("quant.plugins.known", "it is a calibrator");
  document.explain_unread("quant.plugins.absent", "nobody gives this section");
  document.section("quant.plugins.bare", "plugin 'bare'");
  REQUIRE_THROWS_WITH(document.finish(),
                      Equals("4 problems in the configuration a.toml:\n"
                             "  a.toml:1:16: section [quant.plugins.known]: it is a calibrator\n"
                             "  a.toml:3:16: section [quant.plugins.unknown]: no plugin 'unknown' is loaded (loaded: bare)\n"
                             "  a.toml:5:1: plugin 'bare' has no key 'x' (section [quant.plugins.bare]); it has no settings\n"
                             "  a.toml:7:1: 'quant.plugins.value' would be the section [quant.plugins.value] of a plugin, so it is a table; found "
                             "the integer 3"));
}

TEST_CASE("what plugins do not read can be refused before plugins are loaded") {
  const std::string plugins = "[quant.plugins.other]\nx = 1\n";
  Document good = Document::parse(plugins, "a.toml");
  good.section("quant");
  CHECK_NOTHROW(good.finish_outside("quant.plugins"));
  REQUIRE_THROWS_WITH(good.finish(), ContainsSubstring("unknown key 'x': there is no section [quant.plugins.other]"));

  Document bad = Document::parse("[quant]\nplugin = 1\n" + plugins, "a.toml");
  bad.section("quant");
  REQUIRE_THROWS_WITH(bad.finish_outside("quant.plugins"), Equals("a.toml:2:1: section [quant] has no key 'plugin'"));
  Document scalar = Document::parse("[quant]\nplugins = 1\n", "a.toml");
  scalar.section("quant");
  REQUIRE_THROWS_AS(scalar.finish_outside("quant.plugins"), kvant::UsageError);
}

TEST_CASE("a plugin's section that is empty or that no plugin is there for is refused too") {
  Document document = Document::parse("[quant.plugins.other]\n", "a.toml");
  document.section("quant");
  document.declare_family("quant.plugins", "plugin");
  REQUIRE_THROWS_WITH(document.finish(), ContainsSubstring("no plugin 'other' is loaded (loaded: none)"));
}

TEST_CASE("hints answer names of other software") {
  Document document = Document::parse("[run]\nmodel_name = \"x\"\n", "a.toml");
  document.hint("model_name", "models are files here");
  take_all(document);
  REQUIRE_THROWS_WITH(document.finish(),
                      Equals("a.toml:2:1: section [run] has no key 'model_name'; models are files here"));
}

TEST_CASE("a reader may refuse a value with a sentence of its own, at the value's place") {
  Document document = Document::parse("[run]\nsteps = 3\n", "a.toml");
  Section run = document.section("run");
  if (run.take<int64_t>("steps", 1) == 3) run.refuse("steps", "3 is not liked");
  REQUIRE_THROWS_WITH(document.finish(), Equals("a.toml:2:9: 3 is not liked"));
}

TEST_CASE("two readers of one key are a mistake of the program") {
  Document document = Document::parse("", "a.toml");
  Section run = document.section("run");
  run.take<int64_t>("steps", 1);
  REQUIRE_THROWS_WITH(run.take<int64_t>("steps", 1), Equals("two readers take the key 'steps' of section [run]"));
}

TEST_CASE("broken TOML is refused with its place") {
  REQUIRE_THROWS_WITH(Document::parse("[run]\nsteps = = 3\n", "a.toml"),
                      ContainsSubstring("a.toml:2:9: this is not TOML: "));
  for (const char* header :
       {"[=", "[=1]", "[[[run]]]", "[ [[run]]]", "[[]]", "[]", "[", "[[", "[.run]", "[run", "[run]]"}) {
    INFO(header);
    REQUIRE_THROWS_WITH(Document::parse(std::string("x = [\n[[1]]]\n") + header + "\n", "a.toml"),
                        ContainsSubstring("a.toml:3:") && ContainsSubstring("this is not TOML"));
  }
  REQUIRE_THROWS_AS(Document::parse("[run]\nsteps = 1\nsteps = 2\n", "a.toml"), kvant::UsageError);
  REQUIRE_THROWS_AS(Document::parse("[run]\nx = \"\xff\"\n", "a.toml"), kvant::UsageError);
}

TEST_CASE("the resolved configuration reads back to the same values") {
  const std::string text =
      "[run]\nflag = true\n[optimizer]\nlearning_rate = 0.1\nnames = [\"a\\\"b\", \"c\\\\d\", \"e\\tf\"]\nkind = "
      "\"\"\n";
  Document document = Document::parse(text, "a.toml");
  const Taken first = take_all(document);
  document.finish();
  const std::string resolved = document.resolved();
  CHECK_THAT(resolved, ContainsSubstring("learning_rate = 0.1  # a.toml:4:17"));
  CHECK_THAT(resolved, ContainsSubstring("steps = 7  # default"));
  Document again = Document::parse(resolved, "b.toml");
  const Taken second = take_all(again);
  again.finish();
  CHECK(first.names == second.names);
  CHECK(first.learning_rate == second.learning_rate);
  CHECK(first.kind == second.kind);
  CHECK(second.steps == 7);
  CHECK(second.flag);
}

TEST_CASE("what was declared is known with type, range, default, unit and meaning") {
  Document document = Document::parse("[run]\nsteps = 3\n", "a.toml");
  take_all(document);
  const KeyRecord& steps = document.keys().front();
  CHECK(steps.section == "run");
  CHECK(steps.key.name == "steps");
  CHECK(steps.key.unit == "steps");
  CHECK(steps.key.description == "steps of the run");
  CHECK(steps.type == "integer");
  CHECK(steps.fallback == "7");
  CHECK(steps.value == "3");
  CHECK(steps.allowed == "at least 1");
  CHECK(steps.given);
  CHECK(to_string(steps.place) == "a.toml:2:9");
}
