#include "data/named_text.hpp"
#include "base/error.hpp"
#include "base/log.hpp"
#include "support/temporary_folder.hpp"

#include <catch2/catch_test_macros.hpp>
#include <catch2/matchers/catch_matchers_exception.hpp>
#include <catch2/matchers/catch_matchers_string.hpp>

using Catch::Matchers::ContainsSubstring;
using Catch::Matchers::MessageMatches;
using kvant::data::named_text_files;
using kvant::test::EnvironmentVariable;
using kvant::test::TemporaryFolder;

TEST_CASE("gcide is the file that set-up fetched") {
  const TemporaryFolder folder;
  const std::string file = folder.write("gcide.txt", "Abacus\n");
  const EnvironmentVariable texts("KVANT_TEXT_DIR", folder.path().c_str());
  REQUIRE(named_text_files("gcide").size() == 1);
  CHECK(named_text_files("gcide")[0] == file);
}

TEST_CASE("without gcide the project's own docs and sources take its place, and the log says so") {
  const TemporaryFolder folder;
  folder.write("root/README.md", "read me");
  folder.write("root/docs/deep/numerics.md", "numbers");
  folder.write("root/docs/figure.svg", "no text");
  folder.write("root/framework/base/error.hpp", "code");
  folder.write("root/framework/base/log.cpp", "code");
  folder.write("root/framework/CMakeLists.txt", "no text");
  folder.write("root/tests/some_test.cpp", "not taken");
  const std::string log_file = (folder / "log.txt").string(), root = (folder / "root").string();
  kvant::log::configure(kvant::log::Level::info, log_file);
  const EnvironmentVariable texts("KVANT_TEXT_DIR", (folder / "nothing").c_str()), project("KVANT_ROOT", root.c_str());
  const auto files = named_text_files("gcide");
  REQUIRE(files.size() == 4);
  CHECK(files[0] == folder / "root/README.md");
  CHECK(files[1] == folder / "root/docs/deep/numerics.md");
  CHECK(files[2] == folder / "root/framework/base/error.hpp");
  CHECK(files[3] == folder / "root/framework/base/log.cpp");
  kvant::log::flush();
  CHECK_THAT(TemporaryFolder::read(log_file),
             ContainsSubstring("warning") && ContainsSubstring((folder / "nothing/gcide.txt").string()) &&
                 ContainsSubstring("own docs and sources instead (4 files below '" + root + "')"));
}

TEST_CASE("where neither is to be found the run is refused with both reasons") {
  const TemporaryFolder folder;
  {
    const EnvironmentVariable texts("KVANT_TEXT_DIR", nullptr), project("KVANT_ROOT", nullptr);
    CHECK_THROWS_MATCHES(
        named_text_files("gcide"), kvant::UsageError,
        MessageMatches(ContainsSubstring("KVANT_TEXT_DIR") && ContainsSubstring("KVANT_ROOT is not set")));
  }
  const EnvironmentVariable texts("KVANT_TEXT_DIR", folder.path().c_str()),
      project("KVANT_ROOT", folder.path().c_str());
  CHECK_THROWS_MATCHES(named_text_files("gcide"), kvant::UsageError,
                       MessageMatches(ContainsSubstring("below KVANT_ROOT, '" + folder.path().string())));
}

TEST_CASE("another name is refused") {
  CHECK_THROWS_MATCHES(named_text_files("wikitext"), kvant::UsageError,
                       MessageMatches(ContainsSubstring("\"wikitext\"") && ContainsSubstring("\"gcide\"")));
}
