#include "plugin/detail/check.hpp"

#include "plugin/loader.hpp"
#include "plugin_files.hpp"

#include <algorithm>
#include <catch2/matchers/catch_matchers_string.hpp>

using namespace kvant;
using Catch::Matchers::ContainsSubstring;
using Catch::Matchers::StartsWith;
using kvant::test::plugin_file;
using kvant::test::PluginBytes;
using kvant::test::TemporaryFolder;

namespace {

plugin::Info inspected(const PluginBytes& plugin) {
  const TemporaryFolder folder;
  return plugin::inspect(folder.write("libkvant_good.so", plugin.bytes));
}

std::string refused_with(void (*change)(KvantPluginRecord&)) {
  PluginBytes plugin("good");
  KvantPluginRecord record = plugin.record();
  change(record);
  plugin.set_record(record);
  return inspected(plugin).refused;
}

}  // namespace

TEST_CASE("a good plugin is described without running it") {
  const test::EnvironmentVariable unset("KVANT_TEST_CONSTRUCTED", nullptr);
  const plugin::Info info = plugin::inspect(plugin_file("good"));
  CHECK(info.refused.empty());
  CHECK(info.name == "good");
  CHECK(info.version == "1.0");
  CHECK(info.provides == std::vector<std::string>{"comm:test_good", "comm:test_mortal"});
  CHECK(info.offers(plugin::Kind::comm, "test_good"));
  CHECK_FALSE(info.offers(plugin::Kind::scheme, "test_good"));
  CHECK(info.source_hash == "0000");
  CHECK(info.fingerprint == plugin::own_fingerprint());
  CHECK(std::getenv("KVANT_TEST_CONSTRUCTED") == nullptr);
}

TEST_CASE("the fingerprint says what it promises") {
  const std::string own = plugin::own_fingerprint();
  for (const char* field :
       {"abi=3;kokkos=", ";backends=", ";gpu=", ";compiler=", ";cxx=20", ";stdlib=", ";checks=", ";mpi="})
    CHECK_THAT(own, ContainsSubstring(field));
}

TEST_CASE("a plugin of another ABI is named and refused") {
  CHECK_THAT(refused_with([](KvantPluginRecord& r) { r.abi += 1; }),
             StartsWith("Plugin 'good' (/") && ContainsSubstring("was built for plugin ABI 4, but this Kvant (") &&
                 ContainsSubstring("has ABI 3; build it again with kvant_add_plugin"));
}

TEST_CASE("a plugin of another build is refused with every difference") {
  PluginBytes plugin("good");
  plugin.change_fingerprint("kokkos=", "kokkos<");
  CHECK_THAT(inspected(plugin).refused,
             ContainsSubstring("was built otherwise than this program: kokkos nothing instead of"));
}

TEST_CASE("differences of fingerprints name both sides") {
  using plugin::detail::differences;
  CHECK(differences("a=1;b=2", "a=1;b=2").empty());
  CHECK(differences("kokkos=5.3.0;compiler=gcc14", "kokkos=5.2.2;compiler=gcc14") ==
        std::vector<std::string>{"kokkos 5.3.0 instead of 5.2.2"});
  CHECK(differences("kokkos=5.3.0;compiler=gcc13;more=1", "kokkos=5.2.2;compiler=gcc14") ==
        std::vector<std::string>{"kokkos 5.3.0 instead of 5.2.2", "compiler gcc13 instead of gcc14",
                                 "more 1 instead of nothing"});
  CHECK(differences("b=2;a=1", "a=1;b=2").size() == 1);  // equal fields, other text: still not equal
}

TEST_CASE("damaged records are refused") {
  CHECK_THAT(refused_with([](KvantPluginRecord& r) { r.size = 12; }), ContainsSubstring("call themselves 12"));
  CHECK_THAT(refused_with([](KvantPluginRecord& r) { std::memset(r.name, 0, sizeof(r.name)); }),
             ContainsSubstring("name is empty"));
  CHECK_THAT(refused_with([](KvantPluginRecord& r) { std::memset(r.name, 'x', sizeof(r.name)); }),
             ContainsSubstring("name is endless"));
  CHECK_THAT(refused_with([](KvantPluginRecord& r) { r.name[0] = '\033'; }),
             ContainsSubstring("name has characters that cannot be printed"));
  CHECK_THAT(refused_with([](KvantPluginRecord& r) { std::memset(r.fingerprint, 'x', sizeof(r.fingerprint)); }),
             ContainsSubstring("fingerprint is endless"));
  CHECK_THAT(refused_with([](KvantPluginRecord& r) { r.kinds = 1; }),
             ContainsSubstring("announces 'comm:test_good and comm:test_mortal'"));
  CHECK_THAT(refused_with([](KvantPluginRecord& r) { std::strcpy(r.provides, "potato:mash"); }),
             ContainsSubstring("potato:mash"));
}

TEST_CASE("what is not a plugin, or carries a Kokkos, or lacks an entry, is refused before it is loaded") {
  const test::EnvironmentVariable unset("KVANT_TEST_CONSTRUCTED", nullptr);
  const auto refused = [](const char* name) { return plugin::inspect(plugin_file(name)).refused; };
  CHECK_THAT(refused("no_record"), StartsWith("The plugin file /") && ContainsSubstring("carries no record"));
  CHECK_THAT(refused("missing_entry"),
             StartsWith("Plugin 'missing_entry' (/") && ContainsSubstring("does not export kvant_plugin_register"));
  CHECK_THAT(refused("hidden"), ContainsSubstring("build it with default visibility"));
  for (const char* name : {"own_kokkos", "own_kokkos_hidden"})
    CHECK_THAT(refused(name), ContainsSubstring("contains a Kokkos of its own") &&
                                  ContainsSubstring("target_link_libraries(<plugin> PRIVATE Kvant::kvant)"));
  CHECK(std::getenv("KVANT_TEST_CONSTRUCTED") == nullptr);
}

TEST_CASE("a plugin that asks for another library of Kokkos, MPI or Kvant is refused") {
  const plugin::detail::ElfFile elf(plugin_file("good"));
  plugin::Info info;
  plugin::detail::read_record(elf, info);
  plugin::detail::HostFacts host = plugin::detail::own_facts();
  CHECK_NOTHROW(plugin::detail::check_fit(elf, info, host));
  for (std::string& soname : host.libraries)
    if (soname.starts_with("libkvant.so")) soname = "libkvant.so.77";
  CHECK_THAT(test::sentence([&] { plugin::detail::check_fit(elf, info, host); }),
             ContainsSubstring("asks for libkvant.so.") && ContainsSubstring("libkvant.so.77"));
}

TEST_CASE("this process knows its own shared libraries") {
  const auto& libraries = plugin::detail::own_facts().libraries;
  for (const char* family : {"libkokkoscore.so", "libkvant.so"})
    CHECK(std::ranges::any_of(libraries, [&](const std::string& soname) { return soname.starts_with(family); }));
}
