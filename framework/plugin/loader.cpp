#include "plugin/loader.hpp"

#include "base/error.hpp"
#include "base/kokkos.hpp"
#include "base/log.hpp"
#include "config/suggest.hpp"
#include "plugin/abi.hpp"
#include "plugin/detail/check.hpp"
#include "plugin/guard.hpp"
#include "plugin/detail/search.hpp"

#include <dlfcn.h>
#include <algorithm>
#include <cstring>

namespace kvant::plugin {
namespace {

namespace fs = std::filesystem;

/// A library of which code has run, so that it may hold static objects, even if it was refused later.
struct Opened {
  Origin origin;
  KvantPluginClose close;
};

struct Loaded {
  std::deque<Info> plugins;
  std::vector<Opened> opened;
  bool hooked = false, shut = false;
};

/// Never destroyed: Kokkos' finalize hook may ask for it after the statics of this library are gone.
Loaded& state() {
  static Loaded* const all = new Loaded;
  return *all;
}

fs::path real_path(const fs::path& file) {
  std::error_code error;
  const fs::path real = fs::weakly_canonical(file, error);
  return error ? file : real;
}

std::string title(const Info& info) {
  return info.name.empty() ? fmt::format("The plugin file {}", info.file.string())
                           : fmt::format("Plugin '{}' ({})", info.name, info.file.string());
}

/// Collects what a plugin offers while it registers; nothing is taken over before all of it was accepted.
class Collector final : public Host {
 public:
  explicit Collector(const Info& info) : info_(info) {}

  void add(const Registration& offer) override {
    if (!info_.offers(offer.kind, offer.name))
      refuse("It offers the {} '{}', which its record ({}) does not announce.", name_of(offer.kind), offer.name,
             config::listed(info_.provides));
    offers_.push_back(offer);
  }

  /// All or nothing: a name that is taken is found before the first one is added.
  void commit(const Origin& origin) const {
    for (const Registration& offer : offers_) {
      const detail::Entries& entries = detail::Entries::of(offer.kind);
      if (entries.contains(offer.name))
        refuse("The {} '{}' is offered twice: by {} and by {}; the second was not loaded.", name_of(offer.kind),
               offer.name, entries.origin(offer.name).text(), origin.text());
    }
    for (const Registration& offer : offers_) detail::Entries::of(offer.kind).add(offer, origin);
  }

 private:
  const Info& info_;
  std::vector<Registration> offers_;
};

template <class Entry>
Entry entry_of(void* library, const Info& info, const char* name) {
  void* const symbol = dlsym(library, name);
  if (symbol == nullptr) refuse("{} does not export {}.", title(info), name);
  return reinterpret_cast<Entry>(symbol);
}

/// The steps past the checks: dlopen, query, register. The library stays mapped whatever happens (never dlclose: its
/// destructors and thread-local data have addresses in many places).
void open_and_register(const Info& info) {
  dlerror();
  void* const library = dlopen(info.file.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (library == nullptr) {
    const char* const reason = dlerror();
    refuse("{} cannot be loaded: {}", title(info), reason == nullptr ? "the dynamic linker gives no reason." : reason);
  }
  const Origin origin{info.name, info.file};
  std::vector<Opened>& opened = state().opened;
  if (std::ranges::none_of(opened, [&](const Opened& o) { return o.origin.file == origin.file; }))
    opened.push_back({origin, entry_of<KvantPluginClose>(library, info, "kvant_plugin_close")});
  const auto query = entry_of<KvantPluginQuery>(library, info, "kvant_plugin_query");
  const auto enter = entry_of<KvantPluginRegister>(library, info, "kvant_plugin_register");

  const KvantPluginRecord* record = nullptr;
  guard(origin, "repeating its record", [&] { record = query(); });
  Info ignored;
  const KvantPluginRecord read = detail::read_record(detail::ElfFile(info.file), ignored);
  if (record == nullptr || std::memcmp(record, &read, sizeof(read)) != 0)
    refuse("{} answers kvant_plugin_query with another record than its file holds; build it again.", title(info));

  Collector collector(info);
  guard(origin, "registering", [&] { enter(static_cast<Host*>(&collector)); });
  collector.commit(origin);
}

const Info& load_file(const fs::path& file) {
  Loaded& all = state();
  require(Kokkos::is_initialized(), "Plugins are loaded after Kokkos is initialised and before it is finalised.");
  require(!all.shut, "No plugin is loaded after plugin::shut_down().");
  for (const Info& info : all.plugins)
    if (real_path(info.file) == real_path(file)) return info;

  Info info = inspect(file);
  if (!info.refused.empty()) throw UsageError(info.refused);
  for (const Info& other : all.plugins)
    if (other.name == info.name)
      refuse("Two plugins are named '{}': {} is loaded, {} was asked for. A process takes one of them.", info.name,
             other.file.string(), info.file.string());
  if (!all.hooked) Kokkos::push_finalize_hook(shut_down);
  all.hooked = true;
  open_and_register(info);
  log::info("Plugin '{}' {} ({}) from {}", info.name, info.version, config::listed(info.provides), info.file.string());
  all.plugins.push_back(std::move(info));
  return all.plugins.back();
}

std::string summary(const std::vector<Info>& infos) {
  std::vector<std::string> words;
  for (const Info& info : infos)
    words.push_back(info.refused.empty()
                        ? fmt::format("{} ({})", info.name, config::listed(info.provides))
                        : fmt::format("{} (refused, see `kvant plugins`)", info.file.filename().string()));
  return words.empty() ? "none" : config::listed(words, words.size());
}

/// The one of the found plugins that `wanted` accepts, or null; several are refused.
template <class Wanted>
const Info* only(const std::vector<Info>& infos, const std::string& what, Wanted&& wanted) {
  const Info* first = nullptr;
  for (const Info& info : infos) {
    if (!wanted(info)) continue;
    if (first != nullptr)
      refuse("Two plugin files claim the {}: {} and {}. Remove one of them, or name the file that is meant.", what,
             first->file.string(), info.file.string());
    first = &info;
  }
  return first;
}

bool is_called(const Info& info, const std::string& name) {
  return info.name == name || info.file.filename() == fmt::format("libkvant_{}.so", name);
}

/// `registered`: what is there under such names without a further plugin.
[[noreturn]] void refuse_missing(const std::string& what, const std::string& name, const std::vector<Info>& infos,
                                 const std::vector<std::string>& registered) {
  std::vector<std::string> names = registered;
  for (const Info& info : infos) {
    names.push_back(info.name);
    for (const std::string& offer : info.provides) names.push_back(offer.substr(offer.find(':') + 1));
  }
  const std::string meant = config::nearest(name, names);
  refuse("There is no {} '{}'{}. {}Plugins found: {}. Looked in: {}. KVANT_PLUGIN_PATH names further folders.", what,
         name, meant.empty() ? "" : fmt::format(" (did you mean '{}'?)", meant),
         registered.empty() ? "" : fmt::format("Already here: {}. ", config::listed(registered, registered.size())), summary(infos),
         detail::described(search_path()));
}

void inspect_into(Info& info) {
  try {
    const detail::ElfFile elf(info.file);
    detail::read_record(elf, info);
    detail::check_fit(elf, info, detail::own_facts());
  } catch (const std::exception& error) {
    info.refused = fmt::format("{} {}.", title(info), error.what());
  }
}

}  // namespace

bool Info::offers(Kind kind, std::string_view offer) const {
  return std::ranges::find(provides, fmt::format("{}:{}", name_of(kind), offer)) != provides.end();
}

Info inspect(const fs::path& file) {
  Info info;
  info.file = fs::absolute(file).lexically_normal();
  inspect_into(info);
  return info;
}

std::vector<Info> available() {
  std::vector<Info> all;
  for (const fs::path& file : detail::libraries_in(search_path())) {
    Info info = inspect(file);
    if (!info.name.empty() || file.filename().string().starts_with("libkvant_")) all.push_back(std::move(info));
  }
  for (Info& info : all)
    for (const Info& other : all)
      if (&info != &other && !info.name.empty() && info.name == other.name && info.refused.empty())
        info.refused = fmt::format("{} has the name of {}: a process takes one of them, and only by its file.",
                                   title(info), other.file.string());
  return all;
}

std::string own_fingerprint() { return detail::own_facts().fingerprint; }

const std::deque<Info>& loaded() { return state().plugins; }

const Info& load(const std::string& name_or_file) {
  if (name_or_file.find('/') != std::string::npos) return load_file(name_or_file);
  for (const Info& info : state().plugins)
    if (info.name == name_or_file) return info;
  const std::vector<Info> infos = available();
  const Info* const info =
      only(infos, fmt::format("name '{}'", name_or_file), [&](const Info& i) { return is_called(i, name_or_file); });
  if (info == nullptr) refuse_missing("plugin", name_or_file, infos, {});
  return load_file(info->file);
}

void require_offer(Kind kind, const std::string& name) {
  if (detail::Entries::of(kind).contains(name)) return;
  const std::string what = fmt::format("{} '{}'", name_of(kind), name);
  const std::vector<Info> infos = available();
  const Info* info = only(infos, what, [&](const Info& i) { return i.offers(kind, name); });
  if (info == nullptr)
    info = only(infos, what, [&](const Info& i) { return !i.refused.empty() && is_called(i, name); });
  if (info == nullptr) refuse_missing(name_of(kind), name, infos, detail::Entries::of(kind).names());
  load_file(info->file);
}

void shut_down() {
  Loaded& all = state();
  all.shut = true;
  clear_registries();
  for (; !all.opened.empty(); all.opened.pop_back()) {
    try {
      guard(all.opened.back().origin, "destroying its static objects", all.opened.back().close);
    } catch (const std::exception& error) {  // nobody above a finalize hook can catch it
      log::error("{}", error.what());
    }
  }
}

}  // namespace kvant::plugin
