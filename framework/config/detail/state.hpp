// What a Document and its Sections share: the tree, what was declared, what was wrong.
#pragma once

#include <map>

#include "config/detail/node.hpp"

namespace kvant::config::detail {

struct Problem {
  Place place;
  std::string sentence;
};

/// A section that somebody opened.
struct SectionRecord {
  std::string path;
  std::string owner;  ///< who reads it, in words; empty = the section itself is name enough
  bool list = false;   ///< a list of tables, [[path]]
  bool model = false;  ///< stands for a table inside one of a list, for the reference of all keys

  bool in_list() const { return path.find('[') != std::string::npos; }  ///< a table of a list, or inside one
  std::string header() const;                                           ///< "[run]", "[[quant.rules]]"
};

struct State {
  Node root;
  std::string name;                             ///< the outermost file
  std::vector<SectionRecord> sections;          ///< in the order of opening
  std::vector<KeyRecord> keys;                  ///< in the order of taking
  std::map<std::string, std::string> families;  ///< path → what its sections belong to ("plugin")
  std::map<std::string, std::string> unread;    ///< path of a section of a family → why nobody reads it
  std::map<std::string, std::string> hints;     ///< name that is no key → sentence
  std::vector<Problem> problems;

  const SectionRecord* find_section(std::string_view path) const;
  std::vector<std::string> keys_of(std::string_view section) const;
};

/// Notes everything in the tree that nobody took, except below the table `except` (empty: without exception).
void note_untaken(State& state, const std::string& except);

/// One line per problem, ordered by file and line; empty if there is none.
std::string report(const State& state);

}  // namespace kvant::config::detail
