// A sentence about settings is told with the place of the first one that it names.
#include "config/locate.hpp"

#include <catch2/catch_test_macros.hpp>

using namespace kvant::config;

namespace {

Document read() {
  Document document = Document::parse("[model]\nheads = 4\nsteps = 1\n\n[run]\nsteps = 9\nname = \"heads\"\n", "a.toml", {"run.seed=3"});
  Section model = document.section("model"), run = document.section("run");
  model.take<int64_t>("heads", 1);
  model.take<int64_t>("steps", 1);
  model.take<int64_t>("width", 1);
  run.take<int64_t>("steps", 1);
  run.take<int64_t>("seed", 1);
  run.take<std::string>("name", "");
  document.finish();
  return document;
}

}  // namespace

TEST_CASE("the first key that is given counts, in its section") {
  const Document document = read();
  CHECK(located(document, "[model] heads = 4 does not divide") == "a.toml:2:9: [model] heads = 4 does not divide");
  CHECK(located(document, "[run] steps = 9 is odd") == "a.toml:6:9: [run] steps = 9 is odd");
  CHECK(located(document, "[model] steps, unlike [run] steps") == "a.toml:3:9: [model] steps, unlike [run] steps");
  CHECK(located(document, "seed is odd") == "--set run.seed=3: seed is odd");
  CHECK(located(document, "[model] width = 1 is less than heads") == "a.toml:2:9: [model] width = 1 is less than heads");
}

TEST_CASE("values, parts of words and defaults are no names") {
  const Document document = read();
  for (const char* sentence : {"the value \"heads\" is odd", "found 'seed'", "many_heads and headstrong", "[model] width = 1 is odd",
                               "the run's own words, not 'steps'", "an open \"quote", ""})
    CHECK(located(document, sentence) == sentence);
  CHECK(located(document, "the user's heads") == "a.toml:2:9: the user's heads");
}
