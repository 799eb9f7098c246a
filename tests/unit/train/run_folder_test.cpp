#include "train/run_folder.hpp"
#include "base/error.hpp"
#include "support/temporary_folder.hpp"

#include <catch2/catch_test_macros.hpp>
#include <catch2/generators/catch_generators.hpp>
#include <catch2/matchers/catch_matchers_exception.hpp>
#include <catch2/matchers/catch_matchers_string.hpp>

using Catch::Matchers::ContainsSubstring;
using Catch::Matchers::MessageMatches;
using kvant::UsageError;
using kvant::test::TemporaryFolder;
using kvant::train::RunFolder;

TEST_CASE("new folders are numbered after the largest number there is") {
  const TemporaryFolder folder;
  const auto runs = folder / "deep/runs";
  CHECK(RunFolder::create("", runs, 0).path() == runs / "0001");
  CHECK(RunFolder::create("", runs, 0).path() == runs / "0002");
  std::filesystem::create_directories(runs / "0041");
  std::filesystem::create_directories(runs / "0050-notes");  // no number
  CHECK(RunFolder::create("", runs, 0).path() == runs / "0042");
  std::filesystem::create_directories(runs / "12345");
  CHECK(RunFolder::create("", runs, 0).path() == runs / "12346");
  folder.write("deep/runs/12347", "a file in the way");
  CHECK(RunFolder::create("", runs, 0).path() == runs / "12348");
}

TEST_CASE("a given folder is made, or used where it holds no run") {
  const TemporaryFolder folder;
  const std::string given = (folder / "a/b").string();
  CHECK(RunFolder::create(given, "runs", 0).path() == given);
  folder.write("a/b/notes.txt", "mine");
  CHECK(RunFolder::create(given, "runs", 0).path() == given);
}

TEST_CASE("a given folder that holds a run is refused, and nothing in it changes") {
  const TemporaryFolder folder;
  const std::string name = GENERATE("config.toml", "metrics.jsonl", "metrics.csv", "parameters.safetensors");
  const std::string file = folder.write("run/" + name, "kept"), given = (folder / "run").string();
  CHECK_THROWS_MATCHES(RunFolder::create(given, "runs", 0), UsageError,
                       MessageMatches(ContainsSubstring(given) && ContainsSubstring("holds a run already (" + name)));
  CHECK(TemporaryFolder::read(file) == "kept");
}

TEST_CASE("folders that cannot be made are refused with the reason") {
  const TemporaryFolder folder;
  const std::string file = folder.write("file", "x");
  CHECK_THROWS_MATCHES(RunFolder::create(file, "runs", 0), UsageError, MessageMatches(ContainsSubstring("is a file")));
  CHECK_THROWS_MATCHES(RunFolder::create(file + "/below", "runs", 0), UsageError,
                       MessageMatches(ContainsSubstring("cannot be made")));
  CHECK_THROWS_MATCHES(RunFolder::create("", file, 0), UsageError, MessageMatches(ContainsSubstring("cannot")));
  CHECK_THROWS_AS(RunFolder::create("/proc/kvant-run", "runs", 0), UsageError);
}

TEST_CASE("without disk space nothing is made") {
  const TemporaryFolder folder;
  const std::string given = (folder / "run").string();
  const uint64_t too_much = uint64_t{1} << 62;
  CHECK_THROWS_MATCHES(RunFolder::create(given, "runs", too_much), UsageError,
                       MessageMatches(ContainsSubstring("no disk space") && ContainsSubstring(given) &&
                                      ContainsSubstring(std::to_string(too_much))));
  CHECK_FALSE(std::filesystem::exists(given));
  CHECK_THROWS_AS(RunFolder::create("", folder / "runs", too_much), UsageError);
  CHECK_FALSE(std::filesystem::exists(folder / "runs"));
}

TEST_CASE("a folder is checked before it is needed, and not made") {
  const TemporaryFolder folder;
  const std::string given = (folder / "run").string(), file = folder.write("file", "x");
  folder.write("full/run.log", "kept");
  RunFolder::check(given, "runs", 0);
  RunFolder::check("", folder / "runs", 0);
  CHECK_FALSE(std::filesystem::exists(given));
  CHECK_FALSE(std::filesystem::exists(folder / "runs"));
  CHECK_THROWS_MATCHES(RunFolder::check(file, "runs", 0), UsageError, MessageMatches(ContainsSubstring("is a file")));
  CHECK_THROWS_MATCHES(RunFolder::check((folder / "full").string(), "runs", 0), UsageError, MessageMatches(ContainsSubstring("holds a run already")));
  CHECK_THROWS_MATCHES(RunFolder::check("", folder / "runs", uint64_t{1} << 62), UsageError, MessageMatches(ContainsSubstring("no disk space")));
}

TEST_CASE("a file is written into the folder once") {
  const TemporaryFolder folder;
  const RunFolder run = RunFolder::create((folder / "run").string(), "runs", 0);
  run.write("config.toml", "[run]\n");
  CHECK(TemporaryFolder::read(run.path() / "config.toml") == "[run]\n");
  CHECK_THROWS_MATCHES(run.write("config.toml", "other"), kvant::Error,
                       MessageMatches(ContainsSubstring("File exists")));
}
