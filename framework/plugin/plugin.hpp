// What a plugin's file includes, beside the interface that it implements. One line registers everything:
//
//   KVANT_PLUGIN(kvant::plugin::provide<MyScheme>("my_scheme"))
//
// once per plugin, outside of any namespace; several offers are separated by commas. Plugin code itself stands in an
// anonymous namespace, or two plugins would share the statics of equally named types. kvant_add_plugin (CMake) defines
// KVANT_PLUGIN_NAME, KVANT_PLUGIN_KIND and KVANT_PLUGIN_VERSION and writes kvant_plugin_source_hash.hpp. See
// docs/plugins.md.
#pragma once

#include "plugin/abi.hpp"
#include "plugin/fingerprint.hpp"
#include "plugin/registry.hpp"

#include <initializer_list>
#include <string_view>

#if !defined(KVANT_PLUGIN_SOURCE_HASH)
#include "kvant_plugin_source_hash.hpp"
#endif

namespace kvant::plugin {

namespace detail {

/// Copies a text into a field of the record; does not compile when it is too long or empty.
template <std::size_t N>
consteval void fill(char (&field)[N], std::string_view text) {
  if (text.empty() || text.size() >= N) throw "A text of the plugin's record is empty or longer than its field.";
  for (std::size_t i = 0; i < text.size(); ++i) field[i] = text[i];
}

consteval KvantPluginNote make_note(const char* name, const char* version, const char* source_hash,
                                    std::string_view kind, std::initializer_list<Registration> offers) {
  KvantPluginNote note{6, sizeof(KvantPluginRecord), KVANT_PLUGIN_NOTE_TYPE, KVANT_PLUGIN_NOTE_OWNER, {}};
  KvantPluginRecord& record = note.record;
  record.size = sizeof(KvantPluginRecord);
  record.abi = KVANT_PLUGIN_ABI;
  fill(record.name, name);
  fill(record.version, version);
  fill(record.source_hash, source_hash);
  fill(record.fingerprint, fingerprint.view());
  FixedText<sizeof(record.provides)> provides;
  bool has_kind = false;
  for (const Registration& offer : offers) {
    has_kind = has_kind || kind == name_of(offer.kind);
    record.kinds |= 1u << static_cast<unsigned>(offer.kind);
    if (provides.size > 0) provides.add(" ");
    provides.add(name_of(offer.kind)).add(":").add(offer.name);
  }
  fill(record.provides, provides.view());
  if (!has_kind) throw "The plugin offers nothing of the KIND that kvant_add_plugin was told.";
  return note;
}

}  // namespace detail
}  // namespace kvant::plugin

extern "C" {
extern void* __dso_handle __attribute__((visibility("hidden")));
void __cxa_finalize(void*);
}

// The record alone and the entries alone: the two halves of KVANT_PLUGIN, apart for plugins that write an entry by
// hand.
#define KVANT_PLUGIN_RECORD(...)                                                                            \
  namespace {                                                                                               \
  [[gnu::used, gnu::section(".note.kvant.plugin"),                                                          \
    gnu::aligned(4)]] constinit const KvantPluginNote kvant_plugin_note =                                   \
      ::kvant::plugin::detail::make_note(KVANT_PLUGIN_NAME, KVANT_PLUGIN_VERSION, KVANT_PLUGIN_SOURCE_HASH, \
                                         KVANT_PLUGIN_KIND, {__VA_ARGS__});                                 \
  }

#define KVANT_PLUGIN_QUERY() \
  extern "C" const KvantPluginRecord* kvant_plugin_query(void) { return &kvant_plugin_note.record; }

#define KVANT_PLUGIN_REGISTER(...)                                   \
  extern "C" void kvant_plugin_register(void* host) {                \
    for (const ::kvant::plugin::Registration& offer : {__VA_ARGS__}) \
      static_cast<::kvant::plugin::Host*>(host)->add(offer);         \
  }

// Runs the destructors of this plugin's static objects (what dlclose would do, without unloading the code): a View in a
// static object is then freed while Kokkos is alive. Each runs once; the C library does not repeat it at exit.
#define KVANT_PLUGIN_CLOSE() \
  extern "C" void kvant_plugin_close(void) { __cxa_finalize(&__dso_handle); }

#define KVANT_PLUGIN(...)            \
  KVANT_PLUGIN_RECORD(__VA_ARGS__)   \
  KVANT_PLUGIN_QUERY()               \
  KVANT_PLUGIN_REGISTER(__VA_ARGS__) \
  KVANT_PLUGIN_CLOSE()
