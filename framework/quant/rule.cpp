#include "quant/rule.hpp"

#include "base/error.hpp"
#include "quant/python_regex.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>

namespace kvant::quant {
namespace {

/// Both ends belong to it.
struct Range {
  int first, last;
  bool holds(int value) const { return first <= value && value <= last; }
};

struct Layers {
  std::vector<Range> numbers;  ///< within the stack
  int first = 0, last = 0;     ///< so many layers at the decoder's ends
  bool all() const { return numbers.empty() && first == 0 && last == 0; }

  bool hold(const LayerPlace& place) const {
    if (std::ranges::any_of(numbers, [&](const Range& r) { return r.holds(place.number); })) return true;
    return place.depth >= 0 && (place.depth < first || place.depth >= place.count - last);
  }
};

/// "2-5,7,last:2".
class LayersParser {
 public:
  explicit LayersParser(const Rule& rule) : rule_(rule), text_(rule.layers) {}

  Layers parse() {
    if (text_.empty()) return result_;
    for (std::size_t begin = 0; begin <= text_.size();) {
      const auto comma = std::min(text_.find(',', begin), text_.size());
      item(text_.substr(begin, comma - begin));
      begin = comma + 1;
    }
    return result_;
  }

 private:
  void item(std::string_view text) {
    if (text.starts_with("first") || text.starts_with("last")) {
      const bool first = text.starts_with("first");
      const std::string_view rest = text.substr(first ? 5 : 4);
      if (!rest.empty() && rest.front() != ':') wrong(text);
      const int count = rest.empty() ? 1 : number(rest.substr(1));
      if (count == 0) refuse("{}: layers = \"{}\": \"{}\" is no layer.", place(), text_, text);
      (first ? result_.first : result_.last) = count;
      return;
    }
    const auto dash = text.find('-');
    const int first = number(text.substr(0, dash));
    const int last = dash == std::string_view::npos ? first : number(text.substr(dash + 1));
    if (last < first) refuse("{}: layers = \"{}\": the range {}-{} is empty.", place(), text_, first, last);
    result_.numbers.push_back({first, last});
  }
  int number(std::string_view digits) const {
    int value = 0;
    const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), value);
    if (digits.empty() || error != std::errc{} || end != digits.data() + digits.size() || value < 0) wrong(digits);
    return value;
  }
  [[noreturn]] void wrong(std::string_view text) const {
    refuse(
        "{}: layers = \"{}\" holds \"{}\" where a layer's number was expected; \"2-5,7\", \"first\" and \"last:2\" would be "
        "accepted.",
        place(), text_, text);
  }
  const std::string& place() const { return rule_.place("layers"); }

  const Rule& rule_;
  std::string_view text_;
  Layers result_;
};

PythonRegex compile(const Rule& rule) {
  try {
    return PythonRegex(rule.module_path);
  } catch (const UsageError& error) {
    refuse("{}: module_path \"{}\" is no valid regular expression: {}.", rule.place("module_path"), rule.module_path,
           error.what());
  }
}

}  // namespace

const std::string& Rule::place(const std::string& field) const {
  const auto found = places.find(field);
  return found == places.end() ? origin : found->second;
}

struct RuleMatcher::Compiled {
  PythonRegex path;
  std::string place;
  std::vector<std::string> op_names;
  Layers layers;
};

RuleMatcher::RuleMatcher(const Rule& rule)
    : compiled_(std::make_unique<Compiled>(
          Compiled{compile(rule), rule.place("module_path"), rule.op_names, LayersParser(rule).parse()})) {}

RuleMatcher::RuleMatcher(RuleMatcher&&) noexcept = default;
RuleMatcher& RuleMatcher::operator=(RuleMatcher&&) noexcept = default;
RuleMatcher::~RuleMatcher() = default;

bool RuleMatcher::matches(std::string_view path, std::string_view op, const LayerPlace& layer) const {
  return (compiled_->layers.all() || compiled_->layers.hold(layer)) && names(path, op);
}

std::string RuleMatcher::missing_layers(int largest, int count) const {
  const Layers& l = compiled_->layers;
  for (const Range& r : l.numbers)
    if (r.last > largest) return fmt::format("layer {}, where the largest number is {}", r.last, largest);
  const int ends = std::max(l.first, l.last);
  return ends > count ? fmt::format("{} layers at an end of the decoder, which has {}", ends, count) : "";
}

bool RuleMatcher::names(std::string_view path, std::string_view op) const {
  const Compiled& c = *compiled_;
  if (!c.op_names.empty() && std::ranges::find(c.op_names, op) == c.op_names.end()) return false;
  try {
    return c.path.matches(path);
  } catch (const UsageError& error) {
    refuse("{}: module_path {}.", c.place, error.what());
  }
}

std::vector<int> match_as_reference(const std::vector<Rule>& rules, const std::vector<ReferenceCall>& calls) {
  std::vector<RuleMatcher> matchers;
  for (const Rule& rule : rules) matchers.emplace_back(rule);
  std::vector<int> matched;
  for (const ReferenceCall& call : calls) {
    const auto found = std::ranges::find_if(matchers, [&](const RuleMatcher& m) { return m.matches(call.path, call.op, {}); });
    matched.push_back(found == matchers.end() ? -1 : static_cast<int>(found - matchers.begin()));
  }
  return matched;
}

}  // namespace kvant::quant
