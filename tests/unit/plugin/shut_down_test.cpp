#include "plugin/loader.hpp"

#include "base/error.hpp"
#include "comm/strategy.hpp"
#include "plugin_files.hpp"

#include <catch2/matchers/catch_matchers_string.hpp>

using namespace kvant;
using kvant::test::plugin_file;
using Strategies = plugin::Registry<comm::CommStrategy>;

// One case, since it ends all plugins of the process.
TEST_CASE("the shut-down destroys plugin objects while Kokkos is alive, and nothing can be loaded after it") {
  const test::EnvironmentVariable unset("KVANT_TEST_DESTROYED", nullptr);
  plugin::load(plugin_file("good").string());
  plugin::load(plugin_file("static_view").string());
  Strategies::get("test_mortal");
  Strategies::get("test_static_view");
  CHECK(std::getenv("KVANT_TEST_DESTROYED") == nullptr);
  plugin::shut_down();
  REQUIRE(std::getenv("KVANT_TEST_DESTROYED") != nullptr);
  CHECK(std::string(std::getenv("KVANT_TEST_DESTROYED")) == "good");
  CHECK(Strategies::names().empty());
  CHECK_NOTHROW(plugin::shut_down());
  CHECK_THAT(test::sentence([] { plugin::load(plugin_file("rival").string()); }),
             Catch::Matchers::ContainsSubstring("No plugin is loaded after plugin::shut_down()"));
}
