// What nobody took, and what its author may have meant.
#include <fmt/format.h>

#include <algorithm>
#include <tuple>

#include "config/detail/state.hpp"
#include "config/suggest.hpp"

namespace kvant::config::detail {
namespace {

std::string join(const std::string& path, const std::string& name) { return path.empty() ? name : path + "." + name; }

std::vector<std::string> visible_sections(const State& state) {
  std::vector<std::string> names;
  for (const SectionRecord& section : state.sections)
    if (!section.in_list()) names.push_back(section.header());
  return names;
}

/// "" if no key of another section is meant. Plugins' sections are left out: their keys are nobody else's.
std::string section_that_has(const State& state, const std::string& name, const std::string& except) {
  for (const KeyRecord& record : state.keys)
    if (record.key.name == name && record.section != except && record.section.find('.') == std::string::npos)
      return record.section;
  return {};
}

std::string advice_for_key(const State& state, const std::string& section, const std::string& name) {
  const auto hint = state.hints.find(name);
  if (hint != state.hints.end()) return hint->second;

  const std::vector<std::string> own = state.keys_of(section);
  const std::string plain = normalised(name);
  if (std::find(own.begin(), own.end(), plain) != own.end()) return fmt::format("it is spelt '{}'", plain);
  const std::string elsewhere = section_that_has(state, plain, section);
  if (!elsewhere.empty()) {
    if (plain == name) return fmt::format("this key exists in section [{}]", elsewhere);
    return fmt::format("'{}' exists in section [{}]", plain, elsewhere);
  }

  const std::string meant = nearest(name, own);
  if (!meant.empty()) return fmt::format("did you mean '{}'?", meant);
  std::vector<std::string> others;
  for (const KeyRecord& record : state.keys)
    if (record.section.find('.') == std::string::npos) others.push_back(record.key.name);
  const std::string other = nearest(name, others);
  if (!other.empty())
    return fmt::format("did you mean '{}' of section [{}]?", other, section_that_has(state, other, section));
  if (own.empty()) return {};
  return fmt::format("valid are {}", listed(own));
}

std::string advice_for_section(const State& state, const std::string& path) {
  std::vector<std::string> names;
  for (const SectionRecord& section : state.sections)
    if (!section.in_list()) names.push_back(section.path);
  const std::string meant = nearest(path, names);
  if (!meant.empty()) return fmt::format("did you mean [{}]?", meant);
  return fmt::format("valid are {}", listed(visible_sections(state)));
}

void note_key(State& state, const std::string& section, const std::string& name, const Node& node) {
  std::string what;
  const SectionRecord* record = state.find_section(section);
  if (section.empty())
    what = fmt::format("the key '{}' stands in no section", name);
  else if (record == nullptr)
    what = fmt::format("unknown key '{}': there is no section [{}]", name, section);
  else if (!record->owner.empty())
    what = fmt::format("{} has no key '{}' (section [{}])", record->owner, name, section);
  else
    what = fmt::format("section [{}] has no key '{}'", section, name);
  std::string advice = advice_for_key(state, section, name);
  if (advice.empty() && record != nullptr && !record->owner.empty()) advice = "it has no settings";
  if (advice.empty() && record == nullptr && !section.empty()) advice = advice_for_section(state, section);
  if (!advice.empty()) what += "; " + advice;
  state.problems.push_back({node.key_place, what});
}

void note_absent_member(State& state, const std::string& family, const std::string& name, const Node& node) {
  std::vector<std::string> loaded;
  const std::string prefix = family + ".";
  if (const auto known = state.unread.find(prefix + name); known != state.unread.end()) {
    state.problems.push_back({node.key_place, fmt::format("section [{}{}]: {}", prefix, name, known->second)});
    return;
  }
  for (const SectionRecord& section : state.sections)
    if (section.path.starts_with(prefix)) loaded.push_back(section.path.substr(prefix.size()));
  const std::string& what = state.families.at(family);
  const std::string meant = nearest(name, loaded);
  const std::string near = meant.empty() ? "" : fmt::format("; did you mean [{}{}]?", prefix, meant);
  state.problems.push_back(
      {node.key_place, fmt::format("section [{}{}]: no {} '{}' is loaded (loaded: {}){}", prefix, name, what, name,
                                   loaded.empty() ? "none" : listed(loaded), near)});
}

void walk(State& state, const std::string& path, const Node& table, const std::string& except);

/// The tables of a list, or what stands in its place.
void walk_list(State& state, const std::string& path, const Node& node, const std::string& except) {
  if (node.kind != Kind::array) {
    state.problems.push_back(
        {node.key_place, fmt::format("'{0}' is a list of tables, each written [[{0}]]; found {1}", path, describe(node))});
    return;
  }
  for (size_t i = 0; i < node.items.size(); ++i)
    if (node.items[i].kind == Kind::table) walk(state, fmt::format("{}[{}]", path, i + 1), node.items[i], except);
}

void walk(State& state, const std::string& path, const Node& table, const std::string& except) {
  for (const auto& [name, node] : table.entries) {
    const std::string below = join(path, name);
    if (node.taken || (below == except && node.kind == Kind::table)) continue;
    const SectionRecord* section = state.find_section(below);
    const bool is_section = section != nullptr;
    if (is_section && section->list) {
      walk_list(state, below, node, except);
      continue;
    }
    if (node.kind != Kind::table) {
      if (is_section)
        state.problems.push_back({node.key_place, fmt::format("'{0}' is the section [{0}], so it is a table; found {1}",
                                                              below, describe(node))});
      else if (state.families.contains(path))
        state.problems.push_back({node.key_place, fmt::format("'{0}' would be the section [{0}] of a {1}, so it is a table; found {2}",
                                                              below, state.families.at(path), describe(node))});
      else
        note_key(state, path, name, node);
    } else if (!is_section && state.families.contains(path)) {
      note_absent_member(state, path, name, node);
    } else if (!is_section && node.entries.empty()) {
      state.problems.push_back(
          {node.key_place, fmt::format("there is no section [{}]; {}", below, advice_for_section(state, below))});
    } else {
      walk(state, below, node, except);
    }
  }
}

}  // namespace

std::string SectionRecord::header() const {
  const size_t bracket = path.find('[');
  if (bracket == std::string::npos) return list ? "[[" + path + "]]" : "[" + path + "]";
  const size_t end = path.find(']', bracket);
  const std::string inner = path.substr(end + 1);  // ".additional_qt_config" of a table inside one of the list
  return inner.empty() ? "[[" + path.substr(0, bracket) + "]]" : "[" + path.substr(0, bracket) + inner + "]";
}

const SectionRecord* State::find_section(std::string_view path) const {
  for (const SectionRecord& section : sections)
    if (section.path == path) return &section;
  return nullptr;
}

std::vector<std::string> State::keys_of(std::string_view section) const {
  std::vector<std::string> names;
  for (const KeyRecord& record : keys)
    if (record.section == section) names.push_back(record.key.name);
  return names;
}

void note_untaken(State& state, const std::string& except) { walk(state, "", state.root, except); }

std::string report(const State& state) {
  if (state.problems.empty()) return {};
  std::vector<const Problem*> ordered;
  for (const Problem& problem : state.problems) ordered.push_back(&problem);
  std::stable_sort(ordered.begin(), ordered.end(), [](const Problem* a, const Problem* b) {
    return std::tie(a->place.file, a->place.line, a->place.column) <
           std::tie(b->place.file, b->place.line, b->place.column);
  });
  std::string out;
  if (ordered.size() > 1) out = fmt::format("{} problems in the configuration {}:", ordered.size(), state.name);
  for (const Problem* problem : ordered) {
    if (!out.empty()) out += "\n  ";
    out += fmt::format("{}: {}", to_string(problem->place), problem->sentence);
  }
  return out;
}

}  // namespace kvant::config::detail
