// What was read, with the place of every key and value: the tree that toml++ yields, copied so that layers can be laid
// over one another without losing places (toml++ drops them when a node is copied), and so that toml++ stays in one
// file.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "config/document.hpp"

namespace kvant::config::detail {

/// `beyond`: a number of an override that 64 bits cannot hold; `string` says so in words.
enum class Kind { boolean, integer, real, beyond, string, date, array, table };

struct Node {
  Kind kind = Kind::table;
  bool boolean = false;
  int64_t integer = 0;
  double real = 0.0;
  std::string string;                                 ///< also the text of a date
  std::vector<Node> items;                            ///< of an array
  std::vector<std::pair<std::string, Node>> entries;  ///< of a table
  Place place;                                        ///< of the value
  Place key_place;                                    ///< of the key; of a table, of its header
  bool taken = false;                                 ///< some reader asked for it

  Node* find(std::string_view name);
  const Node* find(std::string_view name) const { return const_cast<Node*>(this)->find(name); }
};

/// "the integer 3", "the string \"abc\"", "a table": how an error names what it found.
std::string describe(const Node& node);

/// Reads TOML text; `name` is what errors call the file. Throws UsageError with the place of the first syntax error.
Node parse_text(const std::string& text, const std::string& name);

/// Reads a file and everything that it extends (relative to the file that says so), base first.
Node parse_file_with_layers(const std::string& file);

/// The same for text that is in memory; `name` decides what `extends` is relative to.
Node parse_text_with_layers(const std::string& text, const std::string& name);

/// Lays `upper` over `lower`: tables are merged key by key, anything else is replaced.
void lay_over(Node& lower, Node&& upper);

/// One "section.key=value": the value is TOML, or a bare word that stands for a string.
Node parse_override(const std::string& text);

}  // namespace kvant::config::detail
