// Which valid name did the user mean? Pure functions on names, for keys, choices, commands, plugins.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace kvant::config {

/// Lower case, hyphens as underscores: names that differ only so are one name spelt in two ways.
std::string normalised(std::string_view name);

/// Single-character insertions, deletions, replacements and swaps of neighbours that turn a into b.
int edit_distance(std::string_view a, std::string_view b);

/// How far `candidate` is from what was written; small is near. Names of which one holds all words of the other
/// ("num_steps", "steps") are near whatever their length.
int distance(std::string_view written, std::string_view candidate);

/// The nearest candidate that is near enough to be meant, the first one on a tie; empty = none is.
std::string nearest(std::string_view written, const std::vector<std::string>& candidates);

/// "a, b and c"; `most`: after so many, "and 12 more".
std::string listed(const std::vector<std::string>& names, size_t most = 12, std::string_view last = "and");

}  // namespace kvant::config
