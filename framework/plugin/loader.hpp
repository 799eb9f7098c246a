// Loader: finds plugins, checks them before their code runs, loads them, never unloads them.
//
// Where plugins are looked for, in this order: a name with a slash is a file; else the folders of KVANT_PLUGIN_PATH
// (separated by colons), then, relative to the program and to libkvant.so, the build tree's `plugins` and the install's
// `kvant/plugins`. A name means the file libkvant_<name>.so, or any plugin whose record has this name or offers
// something of this name.
//
// Order of a process: MPI, Kokkos, plugins; then shut_down(), Kokkos, MPI. shut_down() is also hooked into
// Kokkos::finalize.
#pragma once

#include "plugin/registry.hpp"

#include <deque>
#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

namespace kvant::plugin {

/// What is known of a plugin file without running any of its code.
struct Info {
  std::filesystem::path file;
  std::string name, version;          ///< empty when there is no record
  std::vector<std::string> provides;  ///< "scheme:e3m4"
  std::string source_hash, fingerprint;
  std::string refused;  ///< a sentence, or empty when it would be loaded
  bool offers(Kind kind, std::string_view name) const;
};

/// The folders that are searched, whether they exist or not.
std::vector<std::filesystem::path> search_path();

/// Reads the record and does every check that needs no dlopen. Throws nothing: what is wrong stands in `refused`.
Info inspect(const std::filesystem::path& file);

/// Every plugin in the search path: libkvant_*.so, and other libraries that carry a record. Of several files that claim
/// one name each is refused, naming another. Nothing is loaded.
std::vector<Info> available();

/// The fingerprint that a plugin must have.
std::string own_fingerprint();

/// The plugins of this process, in the order of loading.
const std::deque<Info>& loaded();

/// Loads a plugin by name or file; one that is loaded already is given back. Throws UsageError with a sentence that
/// names plugin and file (a missing one: what was found and where was looked); nothing of a refused plugin stays
/// registered, and the process can go on with another.
const Info& load(const std::string& name_or_file);

/// Makes `name` of this kind available, from what is registered or else from a plugin.
void require_offer(Kind kind, const std::string& name);

/// The shared object of this name, its plugin loaded if need be.
template <Interface T>
T& use(const std::string& name) {
  require_offer(T::plugin_kind, name);
  return Registry<T>::get(name);
}

/// Destroys all plugin objects, then the static objects of the plugins (last loaded first). Afterwards nothing can be
/// loaded. May be called again; called by Kokkos::finalize where nobody did.
void shut_down();

}  // namespace kvant::plugin
