#include "train/detail/file_writer.hpp"
#include "base/error.hpp"
#include "support/temporary_folder.hpp"

#include <catch2/catch_test_macros.hpp>
#include <catch2/matchers/catch_matchers_exception.hpp>
#include <catch2/matchers/catch_matchers_string.hpp>

using Catch::Matchers::ContainsSubstring;
using Catch::Matchers::MessageMatches;
using kvant::test::TemporaryFolder;
using kvant::train::detail::FileWriter;

TEST_CASE("what is written is in the file at once") {
  const TemporaryFolder folder;
  FileWriter file(folder / "rows");
  file.write("one\n");
  CHECK(TemporaryFolder::read(folder / "rows") == "one\n");
  file.write("two\n");
  CHECK(TemporaryFolder::read(folder / "rows") == "one\ntwo\n");
}

TEST_CASE("a file that is there already is not written over") {
  const TemporaryFolder folder;
  const std::string path = folder.write("rows", "precious");
  CHECK_THROWS_MATCHES(FileWriter(path), kvant::Error,
                       MessageMatches(ContainsSubstring(path) && ContainsSubstring("File exists")));
  CHECK(TemporaryFolder::read(path) == "precious");
}

TEST_CASE("a file that cannot be created or a full disk is an error with path and reason") {
  const TemporaryFolder folder;
  CHECK_THROWS_MATCHES(FileWriter(folder / "no/such/folder"), kvant::Error,
                       MessageMatches(ContainsSubstring("No such file or directory")));
  FileWriter full("/dev/full", false);  // every write fails as on a full disk
  CHECK_THROWS_MATCHES(full.write("row"), kvant::Error,
                       MessageMatches(ContainsSubstring("/dev/full") && ContainsSubstring("No space left on device")));
}
