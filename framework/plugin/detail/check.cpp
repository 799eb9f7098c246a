#include "plugin/detail/check.hpp"

#include "base/build.hpp"
#include "base/error.hpp"
#include "config/suggest.hpp"
#include "plugin/fingerprint.hpp"

#include <link.h>
#include <algorithm>
#include <array>
#include <cstring>
#include <sstream>

namespace kvant::plugin::detail {
namespace {

constexpr const char* how_to_build = "build it again with kvant_add_plugin of this Kvant";

/// Libraries that must exist once in the process.
constexpr std::array<std::string_view, 4> shared_once = {"libkokkoscore.so", "libkvant.so", "libmpi.so", "libmpich.so"};

std::string_view family_of(std::string_view soname) {
  for (const std::string_view family : shared_once)
    if (soname.starts_with(family)) return family;
  return {};
}

int note_library(dl_phdr_info* library, std::size_t, void* libraries) {
  const std::string soname = std::filesystem::path(library->dlpi_name).filename();
  if (!family_of(soname).empty()) static_cast<std::vector<std::string>*>(libraries)->push_back(soname);
  return 0;
}

/// A text of a record: ends inside its field and is made of visible characters.
template <std::size_t N>
std::string text_of(const char (&field)[N], const char* what) {
  const std::size_t size = strnlen(field, N);
  if (size == 0 || size == N) fail("has a damaged record (its {} is {})", what, size == 0 ? "empty" : "endless");
  if (!std::all_of(field, field + size, [](char c) { return c >= ' ' && c <= '~'; }))
    fail("has a damaged record (its {} has characters that cannot be printed)", what);
  return {field, size};
}

std::vector<std::string> split(std::string_view text, char separator) {
  std::vector<std::string> parts;
  std::istringstream stream{std::string(text)};
  for (std::string part; std::getline(stream, part, separator);)
    if (!part.empty()) parts.push_back(part);
  return parts;
}

/// The value of a key in "key=value;…".
std::string value_of(std::string_view fingerprint, const std::string& key) {
  for (const std::string& field : split(fingerprint, ';'))
    if (field.starts_with(key + "=")) return field.substr(key.size() + 1);
  return "nothing";
}

}  // namespace

const HostFacts& own_facts() {
  static const HostFacts facts = [] {
    HostFacts made;
    made.fingerprint = fingerprint.view();
    dl_iterate_phdr(note_library, &made.libraries);
    return made;
  }();
  return facts;
}

KvantPluginRecord read_record(const ElfFile& elf, Info& info) {
  const auto ours = [](const ElfNote& note) {
    return note.owner == KVANT_PLUGIN_NOTE_OWNER && note.type == KVANT_PLUGIN_NOTE_TYPE;
  };
  const auto note = std::ranges::find_if(elf.notes(), ours);
  if (note == elf.notes().end())
    fail(
        "is not a plugin of Kvant: it carries no record (was it built with kvant_add_plugin, and does it say "
        "KVANT_PLUGIN?)");
  if (std::ranges::count_if(elf.notes(), ours) > 1)
    fail("carries more than one record of a plugin: say KVANT_PLUGIN once");

  KvantPluginRecord record{};
  const std::size_t least = offsetof(KvantPluginRecord, kinds);
  if (note->descriptor.size() < least) fail("has a damaged record ({} bytes)", note->descriptor.size());
  std::memcpy(&record, note->descriptor.data(), std::min(sizeof(record), note->descriptor.size()));
  info.name = text_of(record.name, "name");
  info.version = text_of(record.version, "version");
  if (record.abi != KVANT_PLUGIN_ABI)
    fail("was built for plugin ABI {}, but this Kvant ({}) has ABI {}; {}", record.abi, KVANT_VERSION, KVANT_PLUGIN_ABI,
         how_to_build);
  if (record.size != sizeof(record) || note->descriptor.size() != sizeof(record))
    fail("has a damaged record ({} bytes that call themselves {}; a record of ABI {} has {})", note->descriptor.size(),
         record.size, KVANT_PLUGIN_ABI, sizeof(record));
  info.provides = split(text_of(record.provides, "list of offers"), ' ');
  uint32_t kinds = 0;
  for (const Kind kind : {Kind::scheme, Kind::calibrator, Kind::comm})
    if (std::ranges::any_of(info.provides, [&](const std::string& offer) {
          return offer.starts_with(fmt::format("{}:", name_of(kind)));
        }))
      kinds |= 1u << static_cast<unsigned>(kind);
  if (kinds == 0 || kinds != record.kinds)
    fail("has a damaged record (it announces '{}', but the kinds {:#x})", config::listed(info.provides), record.kinds);
  info.source_hash = text_of(record.source_hash, "source hash");
  info.fingerprint = text_of(record.fingerprint, "fingerprint");
  return record;
}

std::vector<std::string> differences(std::string_view plugin, std::string_view host) {
  std::vector<std::string> all;
  if (plugin == host) return all;
  for (const std::string_view side : {host, plugin})  // keys of both, each once
    for (const std::string& field : split(side, ';')) {
      const std::string key = field.substr(0, field.find('='));
      const std::string theirs = value_of(plugin, key), ours = value_of(host, key);
      const std::string line = fmt::format("{} {} instead of {}", key, theirs, ours);
      if (theirs != ours && std::ranges::find(all, line) == all.end()) all.push_back(line);
    }
  if (all.empty()) all.emplace_back("the order of the fingerprint's fields");
  return all;
}

void check_fit(const ElfFile& elf, const Info& info, const HostFacts& host) {
  if (elf.defines("_ZN6Kokkos8finalizeEv"))
    fail(
        "contains a Kokkos of its own (it defines Kokkos::finalize), but Kokkos must exist once in the process; link "
        "the shared "
        "library that Kvant uses: target_link_libraries(<plugin> PRIVATE Kvant::kvant), or by hand -lkvant "
        "-lkokkoscore without any "
        "libkokkoscore.a");
  const std::vector<std::string> other = differences(info.fingerprint, host.fingerprint);
  if (!other.empty()) fail("was built otherwise than this program: {}; {}", config::listed(other), how_to_build);
  for (const std::string& soname : elf.needed()) {
    if (family_of(soname).empty() || std::ranges::find(host.libraries, soname) != host.libraries.end()) continue;
    fail("asks for {}, but this program runs with {}; {}", soname, config::listed(host.libraries), how_to_build);
  }
  for (const char* entry : {"kvant_plugin_query", "kvant_plugin_register", "kvant_plugin_close"})
    if (!elf.exports(entry))
      fail(
          "does not export {}; say KVANT_PLUGIN once, outside of any namespace, and build it with default visibility "
          "(hidden visibility would also give it a copy of Kokkos' inline state): {}",
          entry, how_to_build);
}

}  // namespace kvant::plugin::detail
