#include "plugin/registry.hpp"

#include "base/error.hpp"
#include "config/suggest.hpp"
#include "plugin/guard.hpp"

#include <algorithm>
#include <array>

namespace kvant::plugin {

std::string Origin::text() const {
  return plugin.empty() ? std::string("Kvant itself") : fmt::format("plugin '{}' ({})", plugin, file);
}

namespace detail {

Entries& Entries::of(Kind kind) {
  // Never destroyed: after std::exit() without a shut-down the objects of plugins are left alone, not freed late.
  static auto* const all =
      new std::array<Entries, kind_count>{Entries(Kind::scheme), Entries(Kind::calibrator), Entries(Kind::comm)};
  return all->at(static_cast<std::size_t>(kind));
}

void Entries::add(const Registration& offer, const Origin& origin) {
  require(offer.kind == kind_, "A {} was offered where a {} is registered.", name_of(offer.kind), name_of(kind_));
  if (contains(offer.name))
    refuse("The {} '{}' is offered twice: by {} and by {}.", name_of(kind_), offer.name,
           this->origin(offer.name).text(), origin.text());
  entries_.push_back(std::make_unique<Entry>(Entry{offer, offer.name, origin}));
}

bool Entries::contains(std::string_view name) const {
  return std::ranges::any_of(entries_, [&](const auto& entry) { return entry->name == name; });
}

std::vector<std::string> Entries::names() const {
  std::vector<std::string> all;
  for (const auto& entry : entries_) all.push_back(entry->name);
  return all;
}

const Origin& Entries::origin(std::string_view name) const { return find(name).origin; }

Entries::Entry& Entries::find(std::string_view name) const {
  for (const auto& entry : entries_)
    if (entry->name == name) return *entry;
  const std::vector<std::string> known = names();
  const std::string meant = config::nearest(name, known);
  refuse("There is no {} '{}'{}; {}.", name_of(kind_), name,
         meant.empty() ? "" : fmt::format(" (did you mean '{}'?)", meant),
         known.empty() ? "none is loaded" : "loaded: " + config::listed(known, known.size()));
}

void* Entries::create(std::string_view name) {
  const Entry& entry = find(name);
  void* object = nullptr;
  guard(entry.origin, fmt::format("making the {} '{}'", name_of(kind_), name), [&] { object = entry.offer.make(); });
  return object;
}

void* Entries::get(std::string_view name) {
  Entry& entry = find(name);
  if (entry.object == nullptr) {
    entry.object = create(name);
    made_.push_back(&entry);
  }
  return entry.object;
}

void Entries::clear() {
  for (; !made_.empty(); made_.pop_back()) made_.back()->offer.destroy(made_.back()->object);
  entries_.clear();
}

}  // namespace detail

void clear_registries() {
  for (const Kind kind : {Kind::comm, Kind::calibrator, Kind::scheme}) detail::Entries::of(kind).clear();
}

}  // namespace kvant::plugin
