#include "plugin/detail/search.hpp"

#include "base/error.hpp"
#include "plugin/loader.hpp"
#include "plugin_files.hpp"

#include <algorithm>
#include <catch2/matchers/catch_matchers_string.hpp>

using namespace kvant;
using Catch::Matchers::ContainsSubstring;
using kvant::test::EnvironmentVariable;
using kvant::test::plugin_file;
using kvant::test::sentence;
using kvant::test::TemporaryFolder;
namespace fs = std::filesystem;

namespace {

std::string folder_of(const char* name) { return plugin_file(name).parent_path().string(); }

const plugin::Info* find(const std::vector<plugin::Info>& infos, const fs::path& file) {
  for (const plugin::Info& info : infos)
    if (fs::equivalent(info.file, file)) return &info;
  return nullptr;
}

}  // namespace

TEST_CASE("the folders follow from the variable, the program and the library") {
  const auto folders =
      plugin::detail::folders("/a/x::/b:/a/y/../x", "/opt/kvant/bin/kvant", "/opt/kvant/lib64/libkvant.so.0.1");
  CHECK(folders == std::vector<fs::path>{"/a/x", "/b", "/opt/kvant/plugins", "/opt/kvant/lib64/kvant/plugins",
                                         "/opt/kvant/lib/kvant/plugins"});
  const EnvironmentVariable path("KVANT_PLUGIN_PATH", "/somewhere");
  CHECK(plugin::search_path().front() == "/somewhere");
  CHECK(plugin::search_path().at(1) == fs::path(KVANT_BUILD_DIR) / "plugins");  // of this program and of libkvant
}

TEST_CASE("available lists good and refused plugins of a folder, each file once") {
  const TemporaryFolder folder;
  folder.write("libkvant_text.so", "not a library");
  folder.write("other.so", "not a library and not called one of ours");
  folder.write("libkvant_old.so.bak", "");
  fs::copy_file(plugin_file("good"), folder / "renamed.so");
  const std::string path =
      folder.path().string() + ":" + folder_of("no_record") + ":" + folder_of("no_record") + "/.:/no/such/folder";
  const EnvironmentVariable variable("KVANT_PLUGIN_PATH", path.c_str());
  const std::vector<plugin::Info> all = plugin::available();
  REQUIRE(find(all, folder / "libkvant_text.so") != nullptr);
  CHECK_THAT(find(all, folder / "libkvant_text.so")->refused, ContainsSubstring("is not an ELF file"));
  REQUIRE(find(all, folder / "renamed.so") != nullptr);
  CHECK(find(all, folder / "renamed.so")->name == "good");
  CHECK(find(all, folder / "renamed.so")->refused.empty());
  CHECK(find(all, folder / "other.so") == nullptr);
  CHECK(find(all, plugin_file("no_record")) != nullptr);
  CHECK(std::ranges::count_if(
            all, [](const plugin::Info& info) { return info.file.filename() == "libkvant_no_record.so"; }) == 1);
}

TEST_CASE("two files of one name are both refused, and so is the name") {
  const TemporaryFolder folder;
  fs::copy_file(plugin_file("good"), folder / "libkvant_good.so");
  const std::string path = folder.path().string() + ":" + folder_of("good");
  const EnvironmentVariable variable("KVANT_PLUGIN_PATH", path.c_str());
  const std::vector<plugin::Info> all = plugin::available();
  CHECK_THAT(find(all, folder / "libkvant_good.so")->refused,
             ContainsSubstring("has the name of " + plugin_file("good").string()));
  CHECK_THAT(find(all, plugin_file("good"))->refused,
             ContainsSubstring("has the name of " + (folder / "libkvant_good.so").string()));
  CHECK_THAT(sentence([] { plugin::load("good"); }), ContainsSubstring("Two plugin files claim the name 'good'") &&
                                                         ContainsSubstring(plugin_file("good").string()) &&
                                                         ContainsSubstring((folder / "libkvant_good.so").string()));
  CHECK_THAT(sentence([] { plugin::require_offer(plugin::Kind::comm, "test_good"); }),
             ContainsSubstring("Two plugin files claim the comm 'test_good'"));
}

TEST_CASE("two plugins that offer one thing are refused by name") {
  const std::string path = folder_of("good") + ":" + folder_of("rival");
  const EnvironmentVariable variable("KVANT_PLUGIN_PATH", path.c_str());
  CHECK_THAT(
      sentence([] { plugin::require_offer(plugin::Kind::comm, "test_good"); }),
      ContainsSubstring("Two plugin files claim the comm 'test_good'") && ContainsSubstring("libkvant_rival.so"));
}

TEST_CASE("a missing plugin is refused with those found, the nearest and the places") {
  const std::string path = folder_of("good") + ":" + folder_of("no_record") + ":/no/such/folder";
  const EnvironmentVariable variable("KVANT_PLUGIN_PATH", path.c_str());
  const std::string by_name = sentence([] { plugin::load("goood"); });
  CHECK_THAT(by_name, ContainsSubstring("There is no plugin 'goood' (did you mean 'good'?)."));
  CHECK_THAT(by_name, ContainsSubstring("good (comm:test_good and comm:test_mortal)"));
  CHECK_THAT(by_name, ContainsSubstring("libkvant_no_record.so (refused, see `kvant plugins`)"));
  CHECK_THAT(by_name, ContainsSubstring("Looked in: " + folder_of("good")));
  CHECK_THAT(by_name, ContainsSubstring("/no/such/folder (no such folder)"));
  CHECK_THAT(sentence([] { plugin::require_offer(plugin::Kind::scheme, "test_good"); }),
             ContainsSubstring("There is no scheme 'test_good'"));
  CHECK_THROWS_AS(plugin::load("goood"), UsageError);
  CHECK_THAT(sentence([] { plugin::load("/no/such/libkvant_x.so"); }),
             ContainsSubstring("/no/such/libkvant_x.so cannot be opened"));
  // A file that is called like what is wanted, but is refused: its own reason, not "missing".
  CHECK_THAT(sentence([] { plugin::require_offer(plugin::Kind::scheme, "no_record"); }),
             ContainsSubstring("carries no record"));
}
