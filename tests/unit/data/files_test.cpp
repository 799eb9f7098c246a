#include "data/detail/files.hpp"
#include "base/error.hpp"
#include "support/temporary_folder.hpp"

#include <sys/stat.h>
#include <unistd.h>
#include <catch2/catch_test_macros.hpp>
#include <catch2/matchers/catch_matchers_exception.hpp>
#include <catch2/matchers/catch_matchers_string.hpp>

using Catch::Matchers::ContainsSubstring;
using Catch::Matchers::MessageMatches;
using kvant::UsageError;
using kvant::data::detail::list_text_files;
using kvant::data::detail::read_file;

TEST_CASE("paths are listed in their order, folders recursively and sorted, hidden names left out") {
  const kvant::test::TemporaryFolder folder;
  const std::string alone = folder.write("alone.txt", "x");
  folder.write("texts/b.txt", "b");
  folder.write("texts/a.txt", "a");
  folder.write("texts/deep/c.txt", "c");
  folder.write("texts/.hidden", "h");
  folder.write("texts/.git/config", "h");
  const auto files = list_text_files({(folder / "texts").string(), alone});
  REQUIRE(files.size() == 4);
  CHECK(files[0] == folder / "texts/a.txt");
  CHECK(files[1] == folder / "texts/b.txt");
  CHECK(files[2] == folder / "texts/deep/c.txt");
  CHECK(files[3] == folder / "alone.txt");
}

TEST_CASE("a path that is no text is refused with its name") {
  const kvant::test::TemporaryFolder folder;
  const std::string missing = (folder / "missing.txt").string();
  CHECK_THROWS_MATCHES(list_text_files({missing}), UsageError,
                       MessageMatches(ContainsSubstring(missing) && ContainsSubstring("does not exist")));
  std::filesystem::create_directories(folder / "empty");
  CHECK_THROWS_MATCHES(list_text_files({(folder / "empty").string()}), UsageError,
                       MessageMatches(ContainsSubstring("holds no file")));
  CHECK_THROWS_MATCHES(list_text_files({"/dev/null"}), UsageError,
                       MessageMatches(ContainsSubstring("neither a regular file nor a folder")));
  const std::string below_file = folder.write("file", "x") + "/inside";
  CHECK_THROWS_AS(list_text_files({below_file}), UsageError);
}

TEST_CASE("a file is read with every byte, and what cannot be read is refused with its role and the reason") {
  const kvant::test::TemporaryFolder folder;
  std::string bytes;
  for (int i = 0; i < 100000; ++i) bytes.push_back(static_cast<char>(i * 7));
  CHECK(read_file(folder.write("bytes", bytes), "text file") == bytes);
  CHECK(read_file(folder.write("nothing", ""), "text file").empty());
  CHECK_THROWS_MATCHES(read_file(folder / "gone", "tokenizer model"), UsageError,
                       MessageMatches(ContainsSubstring("The tokenizer model '" + (folder / "gone").string()) &&
                                      ContainsSubstring("No such file")));
  CHECK_THROWS_MATCHES(read_file(folder.path(), "text file"), UsageError,
                       MessageMatches(ContainsSubstring("is not a regular file")));
  if (::geteuid() != 0) {  // root may read everything
    const std::string locked = folder.write("locked", "x");
    ::chmod(locked.c_str(), 0);
    CHECK_THROWS_MATCHES(read_file(locked, "text file"), UsageError,
                         MessageMatches(ContainsSubstring("Permission denied")));
  }
}
