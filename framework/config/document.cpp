#include "config/document.hpp"

#include <fmt/format.h>

#include "base/error.hpp"
#include "config/detail/state.hpp"

namespace kvant::config {

using detail::Kind;
using detail::Node;
using detail::State;

std::string to_string(const Place& place) {
  if (place.line == 0) return place.file;
  return fmt::format("{}:{}:{}", place.file, place.line, place.column);
}

namespace {

/// The table at "a.b", or null. A value that is no table on the way counts as absent: finish() refuses it.
Node* table_at(Node& root, const std::string& path) {
  Node* node = &root;
  for (size_t begin = 0; begin <= path.size() && node != nullptr;) {
    const size_t dot = std::min(path.find('.', begin), path.size());
    node = node->find(std::string_view(path).substr(begin, dot - begin));
    if (node != nullptr && node->kind != Kind::table) node = nullptr;
    begin = dot + 1;
  }
  return node;
}

std::shared_ptr<State> state_of(Node&& root, const std::string& name, const std::vector<std::string>& overrides) {
  auto state = std::make_shared<State>();
  state->root = std::move(root);
  state->name = name;
  for (const std::string& text : overrides) lay_over(state->root, detail::parse_override(text));
  return state;
}

}  // namespace

Document Document::read(const std::string& file, const std::vector<std::string>& overrides) {
  return Document(state_of(detail::parse_file_with_layers(file), file, overrides));
}

Document Document::parse(const std::string& text, const std::string& name, const std::vector<std::string>& overrides) {
  return Document(state_of(detail::parse_text_with_layers(text, name), name, overrides));
}

Section Document::section(const std::string& path, const std::string& owner) {
  if (state_->find_section(path) == nullptr) state_->sections.push_back({path, owner});
  return Section(state_, table_at(state_->root, path), path);
}

std::vector<Section> Document::list(const std::string& path) {
  std::vector<Section> tables;
  const size_t dot = path.rfind('.');
  Node* parent = dot == std::string::npos ? &state_->root : table_at(state_->root, path.substr(0, dot));
  Node* node = parent == nullptr ? nullptr : parent->find(std::string_view(path).substr(dot + 1));
  if (node == nullptr || node->kind != Kind::array) return tables;  // another kind is refused by finish()
  for (Node& item : node->items) {
    const std::string name = fmt::format("{}[{}]", path, tables.size() + 1);
    state_->sections.push_back({name, {}});
    if (item.kind == Kind::table)
      tables.push_back(Section(state_, &item, name));
    else
      state_->problems.push_back(
          {item.place, fmt::format("'{}' is a list of tables, each written [[{}]]; found {}", path, path, describe(item))});
  }
  return tables;
}

Section Document::prototype(const std::string& path) {
  if (state_->find_section(path) == nullptr) state_->sections.push_back({path, {}, true});
  return Section(state_, nullptr, path);
}

std::vector<std::string> Document::names_below(const std::string& path) const {
  std::vector<std::string> names;
  if (const Node* table = table_at(state_->root, path))
    for (const auto& [name, node] : table->entries)
      if (node.kind == Kind::table) names.push_back(name);
  return names;
}

void Document::declare_family(const std::string& path, const std::string& what) { state_->families[path] = what; }

void Document::explain_unread(const std::string& path, const std::string& sentence) { state_->unread[path] = sentence; }

void Document::hint(const std::string& name, const std::string& sentence) { state_->hints[name] = sentence; }

void Document::finish() { finish_outside({}); }

void Document::finish_outside(const std::string& path) {
  detail::note_untaken(*state_, path);
  const std::string problems = detail::report(*state_);
  if (!problems.empty()) throw UsageError(problems);
}

const std::vector<KeyRecord>& Document::keys() const { return state_->keys; }

std::string Document::resolved() const {
  std::string out = fmt::format("# {} with every default written out.\n", state_->name);
  for (const detail::SectionRecord& section : state_->sections) {
    if (section.list || section.model) continue;  // its tables follow, if there are any
    bool has_header = false;
    for (const KeyRecord& record : state_->keys) {
      // Of a table in a list, what is given: defaults would drown it, and there may be many.
      if (record.section != section.path || (section.in_list() && !record.given)) continue;
      if (!has_header) out += "\n" + section.header() + "\n";
      has_header = true;
      const std::string from = record.given ? to_string(record.place) : "default";
      out += fmt::format("{} = {}  # {}\n", record.key.name, record.value, from);
    }
  }
  return out;
}

}  // namespace kvant::config
