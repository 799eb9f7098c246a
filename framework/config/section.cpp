// Taking keys: each take declares the key, reads the value if a layer gives one, and notes what is wrong with it.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <filesystem>

#include "base/error.hpp"
#include "config/detail/state.hpp"
#include "config/document.hpp"
#include "config/suggest.hpp"

namespace kvant::config {

using detail::Kind;
using detail::Node;

namespace {

std::string to_toml(bool value) { return value ? "true" : "false"; }
std::string to_toml(int64_t value) { return fmt::format("{}", value); }
std::string to_toml(double value) {
  std::string text = fmt::format("{}", value);
  if (text.find_first_of(".e") == std::string::npos) text += ".0";
  return text;
}
std::string to_toml(const std::string& value) {
  std::string out = "\"";
  for (const char c : value) {
    if (c == '"' || c == '\\')
      out += fmt::format("\\{}", c);
    else if (static_cast<unsigned char>(c) < 0x20 || c == 0x7f)
      out += fmt::format("\\u{:04x}", static_cast<unsigned>(c));
    else
      out += c;
  }
  return out + "\"";
}
template <class T>
std::string to_toml(const std::vector<T>& values) {
  std::string out;
  for (const T& value : values) out += (out.empty() ? "" : ", ") + to_toml(value);
  return "[" + out + "]";
}

template <class T>
struct Type;
template <>
struct Type<bool> {
  static constexpr const char* name = "true or false";
  static bool read(const Node& node, bool& to) {
    to = node.boolean;
    return node.kind == Kind::boolean;
  }
};
template <>
struct Type<int64_t> {
  static constexpr const char* name = "integer";
  static bool read(const Node& node, int64_t& to) {
    to = node.integer;
    return node.kind == Kind::integer;
  }
};
template <>
struct Type<double> {
  static constexpr const char* name = "real";
  static bool read(const Node& node, double& to) {
    to = node.kind == Kind::integer ? static_cast<double>(node.integer) : node.real;
    return node.kind == Kind::integer || (node.kind == Kind::real && std::isfinite(node.real));
  }
};
template <>
struct Type<std::string> {
  static constexpr const char* name = "string";
  static bool read(const Node& node, std::string& to) {
    to = node.string;
    return node.kind == Kind::string;
  }
};
template <class T>
struct Type<std::vector<T>> {
  static constexpr const char* name = std::is_same_v<T, int64_t>  ? "list of integers"
                                      : std::is_same_v<T, double> ? "list of reals"
                                                                  : "list of strings";
  static bool read(const Node& node, std::vector<T>& to) {
    to.clear();
    T one{};
    if (node.kind != Kind::array) {
      if (!Type<T>::read(node, one)) return false;
      to.push_back(one);
      return true;
    }
    for (const Node& item : node.items) {
      if (!Type<T>::read(item, one)) return false;
      to.push_back(one);
    }
    return true;
  }
};

std::string with_article(std::string_view type) {
  if (type == "integer") return "an integer";
  if (type == "real") return "a finite number";
  if (type == "true or false") return "true or false";
  return fmt::format("a {}", type);
}

template <class T>
std::string in_words(const Range<T>& range) {
  std::string out;
  if (range.low) out += fmt::format("{} {}", range.low_open ? "above" : "at least", *range.low);
  if (range.low && range.high) out += " and ";
  if (range.high) out += fmt::format("{} {}", range.high_open ? "below" : "at most", *range.high);
  return out;
}

template <class T>
bool holds(const Range<T>& range, T value) {
  if (range.low && (range.low_open ? value <= *range.low : value < *range.low)) return false;
  if (range.high && (range.high_open ? value >= *range.high : value > *range.high)) return false;
  return true;
}

}  // namespace

Section::Section(std::shared_ptr<detail::State> state, detail::Node* node, std::string path)
    : state_(std::move(state)), node_(node), path_(std::move(path)) {}

bool Section::has(std::string_view name) const { return node_ != nullptr && node_->find(name) != nullptr; }

Place Section::place_of(std::string_view name) const {
  if (node_ != nullptr) {
    if (const Node* node = node_->find(name)) return node->place;
    return node_->key_place;
  }
  return {state_->name, 0, 0};
}

Place Section::place() const { return node_ == nullptr ? Place{state_->name, 0, 0} : node_->key_place; }

std::vector<std::string> Section::given() const {
  std::vector<std::string> names;
  if (node_ != nullptr)
    for (const auto& [name, node] : node_->entries) names.push_back(name);
  return names;
}

Section Section::table(const std::string& name) {
  const std::string path = path_ + "." + name;
  // Right behind the table that it belongs to: in the configuration in force a header below another belongs to that one.
  auto& sections = state_->sections;
  const auto own = std::find_if(sections.begin(), sections.end(), [&](const auto& s) { return s.path == path_; });
  const bool model = own != sections.end() && (own->list || own->model);
  if (state_->find_section(path) == nullptr)
    sections.insert(own == sections.end() ? own : own + 1, detail::SectionRecord{path, {}, false, model});
  Node* node = node_ == nullptr ? nullptr : node_->find(name);
  if (node != nullptr && node->kind != Kind::table) node = nullptr;  // finish() refuses it
  return Section(state_, node, path);
}

void Section::note(const Place& place, std::string sentence) {
  state_->problems.push_back({place, std::move(sentence)});
}

void Section::refuse(std::string_view name, const std::string& sentence) { note(place_of(name), sentence); }

Node* Section::declare(const Key& key, std::string type, std::string fallback, std::string allowed) {
  for (const KeyRecord& record : state_->keys)
    kvant::require(record.section != path_ || record.key.name != key.name,
                   "two readers take the key '{}' of section [{}]", key.name, path_);
  KeyRecord record{path_, key, std::move(type), std::move(fallback), std::move(allowed), {}, false, {}, {}};
  record.value = record.fallback;
  if (const detail::SectionRecord* section = state_->find_section(path_)) record.header = section->header();
  Node* node = node_ == nullptr ? nullptr : node_->find(key.name);
  if (node != nullptr) {
    node->taken = true;
    record.given = true;
    record.place = node->place;
  }
  state_->keys.push_back(std::move(record));
  return node;
}

void Section::settle(const Key& key, std::string value) {
  for (KeyRecord& record : state_->keys)
    if (record.section == path_ && record.key.name == key.name) record.value = std::move(value);
}

template <class T>
bool Section::read(const Key& key, const T* fallback, std::string allowed, T& value) {
  const std::string type = Type<T>::name;
  const Node* node = declare(key, type, fallback == nullptr ? "" : to_toml(*fallback), std::move(allowed));
  value = fallback == nullptr ? T{} : *fallback;
  if (node == nullptr) {
    if (fallback == nullptr) {
      const std::string meaning = key.description.empty() ? "" : fmt::format(" ({})", key.description);
      note(place_of(key.name),
           fmt::format("section [{}] needs the key '{}'{}: {}", path_, key.name, meaning, with_article(type)));
    }
    return false;
  }
  T given{};
  if (!Type<T>::read(*node, given)) {
    // Who gives a number that is too large is told how large it may be.
    const bool range = node->kind == Kind::beyond && !state_->keys.back().allowed.empty();
    const std::string within = range ? ", " + state_->keys.back().allowed : std::string();
    note(node->place, fmt::format("{} in section [{}] must be {}{}; found {}", key.name, path_, with_article(type), within,
                                  describe(*node)));
    return false;
  }
  value = given;
  settle(key, to_toml(value));
  return true;
}

template <class T>
T Section::read_in_range(const Key& key, const T* fallback, const Range<T>& range) {
  const std::string allowed = in_words(range);
  T value{};
  if (!read(key, fallback, allowed, value) || holds(range, value)) return value;
  const std::string unit = key.unit.empty() ? "" : " (" + key.unit + ")";
  refuse(key.name, fmt::format("{} in section [{}] must be {}{}; found {}", key.name, path_, allowed, unit, value));
  return fallback == nullptr ? value : *fallback;
}

template <class T>
T Section::take(const Key& key, const T& fallback) {
  T value{};
  read(key, &fallback, {}, value);
  return value;
}
template <class T>
T Section::require(const Key& key) {
  T value{};
  read<T>(key, nullptr, {}, value);
  return value;
}

#define KVANT_INSTANTIATE(T)                                      \
  template T Section::take<T>(const Key& key, const T& fallback); \
  template T Section::require<T>(const Key& key);
KVANT_INSTANTIATE(bool)
KVANT_INSTANTIATE(int64_t)
KVANT_INSTANTIATE(double)
KVANT_INSTANTIATE(std::string)
KVANT_INSTANTIATE(std::vector<int64_t>)
KVANT_INSTANTIATE(std::vector<double>)
KVANT_INSTANTIATE(std::vector<std::string>)
#undef KVANT_INSTANTIATE

int64_t Section::take_int(const Key& key, int64_t fallback, const IntRange& range) {
  return read_in_range<int64_t>(key, &fallback, range);
}
int64_t Section::require_int(const Key& key, const IntRange& range) {
  return read_in_range<int64_t>(key, nullptr, range);
}
double Section::take_real(const Key& key, double fallback, const RealRange& range) {
  return read_in_range<double>(key, &fallback, range);
}
double Section::require_real(const Key& key, const RealRange& range) {
  return read_in_range<double>(key, nullptr, range);
}

std::string Section::take_choice(const Key& key, const std::string& fallback, const std::vector<std::string>& choices) {
  std::vector<std::string> quoted;
  for (const std::string& choice : choices) quoted.push_back(to_toml(choice));
  const std::string allowed = listed(quoted, quoted.size(), "or");
  std::string value;
  if (!read(key, &fallback, allowed, value)) return fallback;
  for (const std::string& choice : choices)
    if (value == choice) return value;
  const std::string meant = nearest(value, choices);
  const std::string advice = meant.empty() ? "" : fmt::format("; did you mean \"{}\"?", meant);
  refuse(key.name,
         fmt::format("{} in section [{}] must be {}; found \"{}\"{}", key.name, path_, allowed, value, advice));
  return fallback;
}

namespace {
std::string absolute_path(const Place& place, const std::string& path) {
  namespace fs = std::filesystem;
  if (path.empty()) return path;
  const fs::path base = place.line == 0 ? fs::path() : fs::path(place.file).parent_path();
  return fs::absolute(base / path).lexically_normal().string();
}
}  // namespace

std::string Section::take_path(const Key& key, const std::string& fallback) {
  std::string path;
  if (!read(key, &fallback, {}, path)) return path;
  path = absolute_path(place_of(key.name), path);
  settle(key, to_toml(path));
  return path;
}

std::vector<std::string> Section::take_paths(const Key& key, const std::vector<std::string>& fallback) {
  std::vector<std::string> paths;
  if (!read(key, &fallback, {}, paths)) return paths;
  for (std::string& path : paths) path = absolute_path(place_of(key.name), path);
  settle(key, to_toml(paths));
  return paths;
}

}  // namespace kvant::config
