#include "config/suggest.hpp"

#include <fmt/format.h>

#include <algorithm>

namespace kvant::config {
namespace {

std::vector<std::string> words_of(const std::string& name) {
  std::vector<std::string> words(1);
  for (const char c : name) {
    if (c == '_')
      words.emplace_back();
    else
      words.back() += c;
  }
  return words;
}

/// What it costs to go from `shorter` to `longer` by adding words, a word with a slip of one letter costing as much as
/// one more; -1 if `longer` lacks a word of `shorter`.
int words_beyond(const std::vector<std::string>& shorter, std::vector<std::string> longer) {
  int slips = 0;
  for (const std::string& word : shorter) {
    auto at = std::find(longer.begin(), longer.end(), word);
    if (at == longer.end() && word.size() >= 4) {
      at = std::find_if(longer.begin(), longer.end(),
                        [&](const std::string& other) { return edit_distance(word, other) == 1; });
      ++slips;
    }
    if (at == longer.end()) return -1;
    longer.erase(at);
  }
  return static_cast<int>(longer.size()) + slips;
}

int near_enough(std::string_view written) { return std::max<int>(2, static_cast<int>(written.size()) / 3); }

}  // namespace

std::string normalised(std::string_view name) {
  std::string out(name);
  for (char& c : out) {
    if (c >= 'A' && c <= 'Z') c = static_cast<char>(c - 'A' + 'a');
    if (c == '-' || c == ' ') c = '_';
  }
  return out;
}

int edit_distance(std::string_view a, std::string_view b) {
  const size_t columns = b.size() + 1;
  std::vector<int> before(columns), last(columns), now(columns);
  for (size_t j = 0; j < columns; ++j) last[j] = static_cast<int>(j);
  for (size_t i = 1; i <= a.size(); ++i) {
    now[0] = static_cast<int>(i);
    for (size_t j = 1; j < columns; ++j) {
      const int replaced = last[j - 1] + (a[i - 1] == b[j - 1] ? 0 : 1);
      now[j] = std::min({last[j] + 1, now[j - 1] + 1, replaced});
      if (i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1]) now[j] = std::min(now[j], before[j - 2] + 1);
    }
    std::swap(before, last);
    std::swap(last, now);
  }
  return last[b.size()];
}

int distance(std::string_view written, std::string_view candidate) {
  const std::string a = normalised(written);
  const std::string b = normalised(candidate);
  int best = edit_distance(a, b);
  const auto words_a = words_of(a);
  const auto words_b = words_of(b);
  const int beyond = words_a.size() < words_b.size() ? words_beyond(words_a, words_b) : words_beyond(words_b, words_a);
  if (beyond >= 0 && a != b) best = std::min(best, 1 + beyond);
  return best;
}

std::string nearest(std::string_view written, const std::vector<std::string>& candidates) {
  std::string best;
  int best_distance = near_enough(written) + 1;
  for (const std::string& candidate : candidates) {
    const int d = distance(written, candidate);
    // A name that shares no letter in place with a short word is not what was meant.
    if (d < best_distance && d < static_cast<int>(std::max(written.size(), candidate.size()))) {
      best = candidate;
      best_distance = d;
    }
  }
  return best;
}

std::string listed(const std::vector<std::string>& names, size_t most, std::string_view last) {
  std::string out;
  const size_t shown = std::min(most, names.size());
  for (size_t i = 0; i < shown; ++i) {
    if (i > 0) out += i + 1 == names.size() ? fmt::format(" {} ", last) : ", ";
    out += names[i];
  }
  if (shown < names.size()) out += fmt::format(" and {} more", names.size() - shown);
  return out;
}

}  // namespace kvant::config
