// Room config: TOML files read strictly. Every key is taken by somebody or refused; whoever takes a key says its type,
// range, unit and meaning, so that the reference of all keys (docs/configuration.md) comes from the readers themselves.
//
//   Document document = Document::read("run.toml", {"optimizer.learning_rate=1e-3"});
//   Section run = document.section("run");
//   const int64_t steps = run.require_int({"steps", "optimizer steps of the run", "steps"}, at_least(1));
//   document.finish();   // throws one UsageError that lists everything that was wrong
//
// A take never throws for what the user wrote: it notes the problem and returns the default, so that one run of the
// program shows all problems. Values are therefore not to be used before finish().
#pragma once

#include <concepts>
#include <cstdint>
#include <initializer_list>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace kvant::config {

/// Where a key or value stands. line and column count from 1; line 0 = an override, `file` then holds it as it was
/// written.
struct Place {
  std::string file;
  int line = 0;
  int column = 0;
  int layer = 0;  ///< 0: the outermost file, 1: the file that it extends, …; -1: an override. Smaller numbers lie over larger ones
};
/// "run.toml:3:5", or "--set run.steps=x".
std::string to_string(const Place& place);

/// A key as its reader declares it.
struct Key {
  Key(const char* key_name) : name(key_name) {}  // NOLINT: a bare name is a key without words
  Key(std::string key_name, std::string key_description, std::string key_unit = {})
      : name(std::move(key_name)), description(std::move(key_description)), unit(std::move(key_unit)) {}
  std::string name;
  std::string description;
  std::string unit;  ///< "steps", "tokens", "fraction" …; empty where there is none
};

/// Bounds of a number; an open bound does not belong to the range.
template <class T>
struct Range {
  std::optional<T> low;
  std::optional<T> high;
  bool low_open = false;
  bool high_open = false;
};
using IntRange = Range<int64_t>;
using RealRange = Range<double>;
template <std::integral T>
IntRange at_least(T low) {
  return {static_cast<int64_t>(low), {}};
}
template <std::floating_point T>
RealRange at_least(T low) {
  return {low, {}};
}
template <std::integral T>
IntRange between(T low, T high) {
  return {static_cast<int64_t>(low), static_cast<int64_t>(high)};
}
template <std::floating_point T>
RealRange between(T low, T high) {
  return {low, high};
}
inline RealRange above(double low) { return {low, {}, true}; }
inline RealRange from_up_to(double low, double high) { return {low, high, false, true}; }  ///< low ≤ x < high

/// What is known of a key that somebody took.
struct KeyRecord {
  std::string section;  ///< "optimizer", "quant.plugins.my_scheme"
  Key key{""};
  std::string type;      ///< "integer", "real", "true or false", "string", "list of strings" …
  std::string fallback;  ///< the default as TOML; empty = the key is required
  std::string allowed;   ///< range or choices in words; empty = anything of the type
  std::string value;     ///< the value in force, as TOML
  bool given = false;    ///< false: the default is in force
  Place place;           ///< of the value, where given
  std::string header;    ///< "[optimizer]", "[[quant.rules]]"
};

struct TileSize;
struct TileSetting;

namespace detail {
struct Node;
struct State;
}  // namespace detail

/// One table of the document, whether the files have it or not.
class Section {
 public:
  /// T: bool, int64_t, double, std::string, std::vector<int64_t>, std::vector<double>, std::vector<std::string>.
  /// An integer is accepted for a double; one string or number for a list of one. Reals are finite.
  template <class T>
  T take(const Key& key, const T& fallback);
  template <class T>
  T require(const Key& key);

  int64_t take_int(const Key& key, int64_t fallback, const IntRange& range = {});
  int64_t require_int(const Key& key, const IntRange& range = {});
  double take_real(const Key& key, double fallback, const RealRange& range = {});
  double require_real(const Key& key, const RealRange& range = {});

  /// One of a fixed set of words.
  std::string take_choice(const Key& key, const std::string& fallback, const std::vector<std::string>& choices);
  /// The same for an enumeration: pairs of word and value.
  template <class Enum>
  Enum take_enum(const Key& key, Enum fallback, std::initializer_list<std::pair<const char*, Enum>> choices);

  /// File names; a relative one is meant relative to the file that says it (in an override: to the working directory),
  /// and comes back absolute. Empty stays empty. Nothing is looked up on disk.
  std::string take_path(const Key& key, const std::string& fallback);
  std::vector<std::string> take_paths(const Key& key, const std::vector<std::string>& fallback);

  /// How many elements share a scale: a count, a share 1/n of the axis, 0 for no tiles; take_tiles also reads a table of
  /// axes, { 0 = 128, 1 = 0.5 }.
  TileSize take_tile(const Key& key);
  TileSetting take_tiles(const Key& key);

  /// The table of this name inside this one.
  Section table(const std::string& name);

  /// True if a file or an override gives the key.
  bool has(std::string_view name) const;
  /// Where the key stands; if it is not given, where the section or else the file does.
  Place place_of(std::string_view name) const;
  /// Where the table itself stands, and the keys that the layers give in it.
  Place place() const;
  std::vector<std::string> given() const;
  /// Notes a problem that the reader found in a value of this section (finish() throws it).
  void refuse(std::string_view name, const std::string& sentence);
  /// Replaces the value in force of a key that was taken, as TOML, where another key decides it.
  void settle(const Key& key, std::string value);

  const std::string& path() const { return path_; }

 private:
  friend class Document;
  Section(std::shared_ptr<detail::State> state, detail::Node* node, std::string path);

  detail::Node* declare(const Key& key, std::string type, std::string fallback, std::string allowed);
  void note(const Place& place, std::string sentence);
  /// True if a layer gives the key and the value has the type; otherwise `value` is the default and the problem is
  /// noted.
  template <class T>
  bool read(const Key& key, const T* fallback, std::string allowed, T& value);
  template <class T>
  T read_in_range(const Key& key, const T* fallback, const Range<T>& range);

  std::shared_ptr<detail::State> state_;
  detail::Node* node_;  ///< null = no layer has this table
  std::string path_;
};

/// All layers of one configuration. Copies share their state.
class Document {
 public:
  /// Reads the file, the files that it extends, and the overrides ("section.key=value", later ones win).
  /// Throws UsageError at once for what cannot be read at all: a missing file, broken TOML, a cycle of `extends`.
  static Document read(const std::string& file, const std::vector<std::string>& overrides = {});
  /// The same from memory; `name` stands for the file in messages and for what `extends` is relative to.
  static Document parse(const std::string& text, const std::string& name,
                        const std::vector<std::string>& overrides = {});

  /// `path`: "run", "quant.plugins.my_scheme". `owner` names who reads it in messages ("plugin 'my_scheme'"), if not
  /// the section.
  Section section(const std::string& path, const std::string& owner = {});

  /// The tables of the list [[path]] in order, as sections "path[1]", "path[2]", …
  std::vector<Section> list(const std::string& path);
  /// A table of that list that no layer has: what is taken from it tells the reference of all keys what a table holds.
  Section prototype(const std::string& path);

  /// Sections directly below `path` that the files have.
  std::vector<std::string> names_below(const std::string& path) const;

  /// Says that sections below `path` belong to things that may be absent: one that nobody read is refused with
  /// "no <what> 'name' is loaded (loaded: …)".
  void declare_family(const std::string& path, const std::string& what);

  /// Why nobody reads the section `path` of a family, for who knows more than that nothing of this name is loaded.
  void explain_unread(const std::string& path, const std::string& sentence);

  /// A sentence for a name that people may try but that is no key here (a name of other software, an old name).
  void hint(const std::string& name, const std::string& sentence);

  /// Refuses what nobody took and throws everything that was noted: one UsageError, one line each, ordered by place.
  void finish();
  /// The same for all but the sections below `path`, whose readers come later (plugins, which need a device first).
  void finish_outside(const std::string& path);

  /// Every key that was taken so far, in the order of taking.
  const std::vector<KeyRecord>& keys() const;

  /// The configuration in force, defaults included, as TOML that reads back to the same values.
  std::string resolved() const;

 private:
  explicit Document(std::shared_ptr<detail::State> state) : state_(std::move(state)) {}
  std::shared_ptr<detail::State> state_;
};

template <class Enum>
Enum Section::take_enum(const Key& key, Enum fallback, std::initializer_list<std::pair<const char*, Enum>> choices) {
  std::vector<std::string> words;
  std::string word;
  for (const auto& [name, value] : choices) {
    words.emplace_back(name);
    if (value == fallback) word = name;
  }
  word = take_choice(key, word, words);
  for (const auto& [name, value] : choices)
    if (word == name) return value;
  return fallback;
}

}  // namespace kvant::config
