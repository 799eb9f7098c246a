#include "plugin/loader.hpp"

#include "base/error.hpp"
#include "comm/strategy.hpp"
#include "plugin_files.hpp"

#include <dlfcn.h>
#include <catch2/matchers/catch_matchers_string.hpp>

using namespace kvant;
using Catch::Matchers::ContainsSubstring;
using Catch::Matchers::StartsWith;
using kvant::test::EnvironmentVariable;
using kvant::test::plugin_file;
using kvant::test::sentence;
using Strategies = plugin::Registry<comm::CommStrategy>;

namespace {

std::string refusal(const char* name) {
  return sentence([&] { plugin::load(plugin_file(name).string()); });
}

}  // namespace

// One case: plugins are never unloaded, so the order of the steps matters.
TEST_CASE("bad plugins are refused one after the other, and the good one then works") {
  const EnvironmentVariable unset("KVANT_TEST_CONSTRUCTED", nullptr);
  for (const char* name : {"no_record", "missing_entry", "hidden", "own_kokkos", "own_kokkos_hidden"}) {
    CHECK_THAT(refusal(name), ContainsSubstring(name));
    CHECK(std::getenv("KVANT_TEST_CONSTRUCTED") == nullptr);  // not even a constructor ran
  }
  CHECK_THAT(refusal("undefined_symbol"), StartsWith("Plugin 'undefined_symbol' (/") &&
                                              ContainsSubstring("cannot be loaded:") &&
                                              ContainsSubstring("function_of_another_version"));
  CHECK_THAT(refusal("liar"), ContainsSubstring("answers kvant_plugin_query with another record than its file holds"));
  CHECK_THAT(refusal("throwing_query"),
             ContainsSubstring("failed while repeating its record: it threw something that is not a std::exception"));
  CHECK_THAT(refusal("throwing_register"),
             ContainsSubstring("failed while registering: it threw 'no memory for the table'"));
  CHECK_THAT(refusal("throwing_register"),
             ContainsSubstring("no memory for the table"));  // a second try changes nothing
  CHECK_THAT(refusal("unannounced"),
             ContainsSubstring("failed while registering: It offers the comm 'test_surprise', which its record"));
  CHECK(Strategies::names().empty());  // nothing of a refused plugin stays
  CHECK(plugin::loaded().empty());

  const std::string good = plugin_file("good").string();
  const plugin::Info& info = plugin::load(good);
  CHECK(info.name == "good");
  CHECK(&plugin::load(good) == &info);
  CHECK(&plugin::load("good") == &info);
  CHECK(plugin::loaded().size() == 1);
  CHECK(Strategies::names() == std::vector<std::string>{"test_good", "test_mortal"});
  CHECK(Strategies::origin("test_good").file == plugin_file("good").string());
  CHECK_NOTHROW(Strategies::get("test_good"));

  CHECK_THAT(refusal("rival"), ContainsSubstring("The comm 'test_good' is offered twice: by plugin 'good'"));
  CHECK(plugin::loaded().size() == 1);
  const test::TemporaryFolder folder;
  std::filesystem::copy_file(plugin_file("good"), folder / "libkvant_good.so");
  CHECK_THAT(sentence([&] { plugin::load((folder / "libkvant_good.so").string()); }),
             ContainsSubstring("Two plugins are named 'good'"));

  // Its own symbols are visible to nobody else.
  CHECK(dlsym(RTLD_DEFAULT, "kvant_plugin_query") == nullptr);

  CHECK_NOTHROW(plugin::load(plugin_file("throwing_create").string()));
  CHECK_THAT(sentence([] { Strategies::get("test_throwing"); }),
             StartsWith("Plugin 'throwing_create' (/") &&
                 ContainsSubstring("failed while making the comm 'test_throwing': it threw 'the table is not sorted'"));
  CHECK_NOTHROW(Strategies::get("test_good"));
}

TEST_CASE("what a configuration names is loaded when it is used") {
  const std::string folder = plugin_file("static_view").parent_path().string();
  const EnvironmentVariable path("KVANT_PLUGIN_PATH", folder.c_str());
  CHECK_FALSE(Strategies::contains("test_static_view"));
  CHECK_NOTHROW(plugin::use<comm::CommStrategy>("test_static_view"));
  CHECK(plugin::loaded().back().name == "static_view");
  CHECK_NOTHROW(plugin::use<comm::CommStrategy>("test_static_view"));
}
