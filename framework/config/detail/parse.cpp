// The only file that knows toml++.

// toml++ 3.4 meets a table header that starts with no key ("[=", "[[[a]]]") with an assertion, which in a release build
// tells the optimiser that it cannot happen. Here it is a check in every build, and a failed one is a syntax error like
// any other.
#include <exception>
namespace kvant::config::detail {
struct BrokenHeader : std::exception {};
constexpr void must_hold(bool condition) {
  if (!condition) throw BrokenHeader{};
}
}  // namespace kvant::config::detail
#undef NDEBUG
#define TOML_ASSERT(condition) ::kvant::config::detail::must_hold(static_cast<bool>(condition))
#include <toml++/toml.hpp>

#include <cctype>
#include <filesystem>
#include <fstream>
#include <sstream>

#include "base/error.hpp"
#include "config/detail/node.hpp"

namespace kvant::config::detail {
namespace {

Place place_in(const std::string& file, const toml::source_position& position) {
  return {file, static_cast<int>(position.line), static_cast<int>(position.column)};
}

template <class Date>
std::string text_of(const Date& date) {
  std::ostringstream out;
  out << date;
  return out.str();
}

Node convert(const toml::node& from, const std::string& file) {
  Node to;
  to.place = to.key_place = place_in(file, from.source().begin);
  if (const auto* table = from.as_table()) {
    to.kind = Kind::table;
    for (const auto& [key, value] : *table) {
      Node child = convert(value, file);
      child.key_place = place_in(file, key.source().begin);
      to.entries.emplace_back(std::string(key.str()), std::move(child));
    }
  } else if (const auto* array = from.as_array()) {
    to.kind = Kind::array;
    for (const auto& item : *array) to.items.push_back(convert(item, file));
  } else if (const auto* boolean = from.as_boolean()) {
    to.kind = Kind::boolean;
    to.boolean = boolean->get();
  } else if (const auto* integer = from.as_integer()) {
    to.kind = Kind::integer;
    to.integer = integer->get();
  } else if (const auto* real = from.as_floating_point()) {
    to.kind = Kind::real;
    to.real = real->get();
  } else if (const auto* string = from.as_string()) {
    to.kind = Kind::string;
    to.string = string->get();
  } else {
    to.kind = Kind::date;
    if (const auto* date = from.as_date()) to.string = text_of(date->get());
    if (const auto* time = from.as_time()) to.string = text_of(time->get());
    if (const auto* date_time = from.as_date_time()) to.string = text_of(date_time->get());
  }
  return to;
}

std::string slurp(const std::string& file, const Place* named_by) {
  const std::string by = named_by == nullptr ? std::string() : fmt::format(" ({} extends it)", to_string(*named_by));
  std::error_code ignored;
  if (!std::filesystem::exists(file, ignored)) refuse("there is no configuration file {}{}", file, by);
  if (std::filesystem::is_directory(file, ignored))
    refuse("{} is a folder, but a configuration is a TOML file{}", file, by);
  std::ifstream in(file, std::ios::binary);
  std::ostringstream text;
  text << in.rdbuf();
  if (!in) refuse("the configuration file {} cannot be read{}", file, by);
  return text.str();
}

/// The canonical name, or the name itself where there is none (a pipe on standard input).
std::string identity_of(const std::string& name) {
  std::error_code error;
  const std::filesystem::path canonical = std::filesystem::weakly_canonical(name, error);
  return error ? name : canonical.string();
}

void set_layer(Node& node, int layer) {
  node.place.layer = node.key_place.layer = layer;
  for (Node& item : node.items) set_layer(item, layer);
  for (auto& [name, value] : node.entries) set_layer(value, layer);
}

/// `chain`: canonical names of the files that are being read, outermost first.
Node layer(const std::string& text, const std::string& name, std::vector<std::string>& chain) {
  Node top = parse_text(text, name);
  set_layer(top, static_cast<int>(chain.size()) - 1);
  const Node* extends = top.find("extends");
  if (extends == nullptr) return top;
  if (extends->kind != Kind::string)
    refuse("{}: extends names one file, so it is a string; found {}", to_string(extends->place), describe(*extends));

  namespace fs = std::filesystem;
  const std::string base_name = (fs::path(name).parent_path() / extends->string).lexically_normal().string();
  const std::string base_text = slurp(base_name, &extends->place);
  const std::string identity = identity_of(base_name);
  for (const std::string& seen : chain)
    if (seen == identity) {
      std::string path;
      for (const std::string& file : chain) path += file + " -> ";
      refuse("{}: files extend one another in a circle: {}{}", to_string(extends->place), path, identity);
    }
  chain.push_back(identity);
  Node base = layer(base_text, base_name, chain);
  chain.pop_back();

  std::erase_if(top.entries, [](const auto& entry) { return entry.first == "extends"; });
  lay_over(base, std::move(top));
  return base;
}

/// Lines, quotes and brackets cannot be a bare word: who writes them means TOML, and its error is the right one.
bool may_be_bare_word(const std::string& value) {
  return value.empty() || std::string_view("[{\"'").find(value.front()) == std::string_view::npos;
}

/// How long the digits are that `text` starts with, single underscores between them.
size_t length_of_digits(std::string_view text, std::string_view digits) {
  const auto is_digit = [&](size_t i) { return i < text.size() && digits.find(text[i]) != std::string_view::npos; };
  size_t length = 0;
  while (is_digit(length) || (length > 0 && length < text.size() && text[length] == '_' && is_digit(length + 1))) ++length;
  return length;
}

/// Where toml++ has refused a value that is written as TOML writes a number, the number is too large: says so in words.
/// "" for any other text.
std::string beyond_64_bits(const std::string& value) {
  constexpr std::string_view decimal = "0123456789";
  const size_t begin = value.find_first_not_of(" \t");
  if (begin == std::string::npos) return {};
  const std::string_view whole = std::string_view(value).substr(begin, value.find_last_not_of(" \t") + 1 - begin);
  const std::string integer = fmt::format("the integer {}, which does not fit 64 bits", whole);
  std::string_view text = whole;
  for (const auto& [prefix, digits] :
       {std::pair("0x", "0123456789abcdefABCDEF"), std::pair("0o", "01234567"), std::pair("0b", "01")})
    if (text.starts_with(prefix)) {
      text.remove_prefix(2);
      return !text.empty() && length_of_digits(text, digits) == text.size() ? integer : std::string();
    }
  if (text.starts_with('+') || text.starts_with('-')) text.remove_prefix(1);
  size_t length = length_of_digits(text, decimal);
  if (length == 0 || (length > 1 && text.front() == '0')) return {};  // TOML has no leading zeros
  text.remove_prefix(length);
  if (text.empty()) return integer;
  if (text.starts_with('.')) {
    text.remove_prefix(1);
    length = length_of_digits(text, decimal);
    if (length == 0) return {};
    text.remove_prefix(length);
  }
  if (text.starts_with('e') || text.starts_with('E')) {
    text.remove_prefix(1);
    if (text.starts_with('+') || text.starts_with('-')) text.remove_prefix(1);
    length = length_of_digits(text, decimal);
    if (length == 0) return {};
    text.remove_prefix(length);
  }
  return text.empty() ? fmt::format("the number {}, which is beyond what 64 bits hold", whole) : std::string();
}

void move_to(Node& node, const Place& place) {
  node.place = node.key_place = place;
  for (Node& item : node.items) move_to(item, place);
  for (auto& entry : node.entries) move_to(entry.second, place);
}

/// The innermost value of "a.b.c = value".
Node& innermost(Node& root, size_t depth) {
  Node* node = &root;
  for (size_t i = 0; i < depth; ++i) node = &node->entries.front().second;
  return *node;
}

/// The first line that looks like a table header without a key.
Place broken_header_in(const std::string& text, const std::string& name) {
  Place place{name, 0, 0};
  std::istringstream lines(text);
  for (std::string line; std::getline(lines, line);) {
    ++place.line;
    const size_t bracket = line.find_first_not_of(" \t");
    if (bracket == std::string::npos || line[bracket] != '[') continue;
    size_t key = line.find_first_not_of(" \t", bracket + 1);
    if (key != std::string::npos && line[key] == '[') key = line.find_first_not_of(" \t", key + 1);
    const bool starts_a_key =
        key != std::string::npos && (std::isalnum(static_cast<unsigned char>(line[key])) != 0 ||
                                     std::string_view("_-\"'").find(line[key]) != std::string_view::npos);
    place.column = static_cast<int>(bracket) + 1;
    if (!starts_a_key) return place;
  }
  return {name, 0, 0};
}

}  // namespace

Node parse_text(const std::string& text, const std::string& name) {
  try {
    const toml::table table = toml::parse(std::string_view(text), std::string_view(name));
    return convert(table, name);
  } catch (const toml::parse_error& error) {
    refuse("{}: this is not TOML: {}", to_string(place_in(name, error.source().begin)), error.description());
  } catch (const BrokenHeader&) {
    refuse("{}: this is not TOML: the header of a section is written [name]", to_string(broken_header_in(text, name)));
  }
}

Node parse_text_with_layers(const std::string& text, const std::string& name) {
  std::vector<std::string> chain{identity_of(name)};
  return layer(text, name, chain);
}

Node parse_file_with_layers(const std::string& file) { return parse_text_with_layers(slurp(file, nullptr), file); }

Node parse_override(const std::string& text) {
  const Place place{"--set " + text, 0, 0, -1};
  const size_t equals = text.find('=');
  if (equals == std::string::npos || equals == 0)
    refuse("{}: an override is written section.key=value", to_string(place));
  if (text.find('\n') != std::string::npos) refuse("{}: an override is one line", to_string(place));
  const std::string key = text.substr(0, equals);
  const std::string value = text.substr(equals + 1);

  toml::table keys;
  try {
    keys = toml::parse(key + " = 0");
  } catch (const std::exception&) {
    refuse("{}: '{}' is no key; an override is written section.key=value", to_string(place), key);
  }
  if (keys.empty()) refuse("{}: an override is written section.key=value", to_string(place));
  Node root = convert(keys, place.file);
  size_t depth = 0;
  for (const Node* node = &root; node->kind == Kind::table; node = &node->entries.front().second) ++depth;
  if (root.entries.front().first == "extends")
    refuse("{}: only a file can extend another; give the other file instead", to_string(place));

  Node& target = innermost(root, depth);
  try {
    const toml::table parsed = toml::parse("value = " + value);
    target = convert(*parsed.get("value"), place.file);
    // A '#' would cut the value short without a word.
    if (value.find('#') != std::string::npos && target.kind != Kind::string && target.kind != Kind::array) {
      target = Node{};
      target.kind = Kind::string;
      target.string = value;
    }
  } catch (const toml::parse_error& error) {
    if (!may_be_bare_word(value)) refuse("{}: the value is not TOML: {}", to_string(place), error.description());
    target = Node{};
    target.string = beyond_64_bits(value);
    target.kind = target.string.empty() ? Kind::string : Kind::beyond;
    if (target.string.empty()) target.string = value;
  }
  move_to(root, place);
  return root;
}

}  // namespace kvant::config::detail
