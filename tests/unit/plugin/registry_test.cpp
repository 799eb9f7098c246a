#include "plugin/registry.hpp"

#include "base/error.hpp"
#include "plugin_files.hpp"

#include <catch2/matchers/catch_matchers_string.hpp>
#include <stdexcept>
#include <vector>

using namespace kvant;
using Catch::Matchers::ContainsSubstring;
using Catch::Matchers::Equals;
using kvant::test::sentence;

namespace {

std::vector<std::string> deaths;

// An interface of the test's own; nothing else registers calibrators in this program.
struct Animal {
  using PluginInterface = Animal;
  static constexpr plugin::Kind plugin_kind = plugin::Kind::calibrator;
  virtual ~Animal() = default;
  virtual std::string says() const = 0;
};
struct Dog : Animal {
  ~Dog() override { deaths.emplace_back("dog"); }
  std::string says() const override { return "wuff"; }
};
struct Cat : Animal {
  ~Cat() override { deaths.emplace_back("cat"); }
  std::string says() const override { return "meow"; }
};
struct Unborn : Animal {
  Unborn() { throw std::runtime_error("no egg"); }
  std::string says() const override { return ""; }
};
struct Odd : Animal {
  Odd() { throw 3; }
  std::string says() const override { return ""; }
};
struct Fussy : Animal {
  Fussy() { refuse("Only fish will do."); }
  std::string says() const override { return ""; }
};

using Animals = plugin::Registry<Animal>;

struct Clean {
  Clean() {
    plugin::clear_registries();
    deaths.clear();
  }
  ~Clean() { plugin::clear_registries(); }
};

}  // namespace

TEST_CASE("objects are made when they are asked for, once for all who share") {
  const Clean clean;
  Animals::add_builtin<Dog>("dog");
  Animals::add_builtin<Cat>("cat");
  CHECK(Animals::names() == std::vector<std::string>{"dog", "cat"});
  CHECK(Animals::contains("cat"));
  CHECK_FALSE(Animals::contains("ca"));
  CHECK(Animals::get("cat").says() == "meow");
  CHECK(&Animals::get("cat") == &Animals::get("cat"));
  {
    const auto own = Animals::create("dog");
    CHECK(own->says() == "wuff");
    CHECK(own.get() != &Animals::get("dog"));
  }
  CHECK(deaths == std::vector<std::string>{"dog"});
}

TEST_CASE("clearing destroys the last object first and forgets the names") {
  const Clean clean;
  Animals::add_builtin<Dog>("dog");
  Animals::add_builtin<Cat>("cat");
  Animals::get("cat");
  Animals::get("dog");
  plugin::clear_registries();
  CHECK(deaths == std::vector<std::string>{"dog", "cat"});
  CHECK(Animals::names().empty());
  plugin::clear_registries();
  CHECK(deaths.size() == 2);
}

TEST_CASE("an unknown name is refused with the nearest and with all") {
  const Clean clean;
  CHECK_THAT(sentence([] { Animals::get("dog"); }), Equals("There is no calibrator 'dog'; none is loaded."));
  Animals::add_builtin<Dog>("dog");
  Animals::add_builtin<Cat>("cat");
  CHECK_THAT(sentence([] { Animals::get("dogg"); }),
             Equals("There is no calibrator 'dogg' (did you mean 'dog'?); loaded: dog and cat."));
  CHECK_THROWS_AS(Animals::create("horse"), UsageError);
}

TEST_CASE("a name that is taken is refused, naming both origins") {
  const Clean clean;
  Animals::add_builtin<Dog>("dog");
  const plugin::Registration again = plugin::provide<Cat>("dog");
  CHECK_THAT(
      sentence([&] {
        plugin::detail::Entries::of(plugin::Kind::calibrator).add(again, {"kennel", "/p/libkvant_kennel.so"});
      }),
      Equals("The calibrator 'dog' is offered twice: by Kvant itself and by plugin 'kennel' (/p/libkvant_kennel.so)."));
  CHECK_THROWS(plugin::detail::Entries::of(plugin::Kind::scheme).add(again, {}));  // another kind
  CHECK(Animals::get("dog").says() == "wuff");
}

TEST_CASE("an exception while an object is made becomes a sentence") {
  const Clean clean;
  plugin::detail::Entries& entries = plugin::detail::Entries::of(plugin::Kind::calibrator);
  const plugin::Origin origin{"zoo", "/p/libkvant_zoo.so"};
  entries.add(plugin::provide<Unborn>("unborn"), origin);
  entries.add(plugin::provide<Odd>("odd"), origin);
  entries.add(plugin::provide<Fussy>("fussy"), origin);
  CHECK_THAT(
      sentence([] { Animals::get("unborn"); }),
      Equals("Plugin 'zoo' (/p/libkvant_zoo.so) failed while making the calibrator 'unborn': it threw 'no egg'."));
  CHECK_THAT(sentence([] { Animals::create("odd"); }),
             ContainsSubstring("threw something that is not a std::exception"));
  CHECK_THAT(
      sentence([] { Animals::get("fussy"); }),
      Equals("Plugin 'zoo' (/p/libkvant_zoo.so) failed while making the calibrator 'fussy': Only fish will do."));
  CHECK_THROWS_AS(Animals::get("unborn"), UsageError);  // again: nothing half made is kept
}
