#include "quant/rule.hpp"

#include "base/error.hpp"

#include <algorithm>
#include <charconv>

#define PCRE2_CODE_UNIT_WIDTH 8
#include <pcre2.h>

namespace kvant::quant {
namespace {

struct CodeDeleter {
  void operator()(pcre2_code* code) const { pcre2_code_free(code); }
};
struct MatchDeleter {
  void operator()(pcre2_match_data* data) const { pcre2_match_data_free(data); }
};
struct ContextDeleter {
  void operator()(pcre2_match_context* context) const { pcre2_match_context_free(context); }
};

std::string pcre_message(int code) {
  PCRE2_UCHAR buffer[256];
  pcre2_get_error_message(code, buffer, sizeof buffer);
  return reinterpret_cast<const char*>(buffer);
}

struct LayerRange {
  int first, last;
};

/// "2-5,7" as ranges; both ends belong to a range.
std::vector<LayerRange> parse_layers(const Rule& rule) {
  std::vector<LayerRange> ranges;
  const std::string& text = rule.layers;
  const auto number = [&](std::string_view digits) {
    int value = 0;
    const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), value);
    if (digits.empty() || error != std::errc{} || end != digits.data() + digits.size() || value < 0)
      refuse("{}: layers = \"{}\" holds \"{}\" where a layer's number was expected; \"2-5,7\" would be accepted.",
             rule.origin, text, digits);
    return value;
  };
  for (std::size_t begin = 0; begin < text.size() || (begin > 0 && begin == text.size());) {
    const auto comma = std::min(text.find(',', begin), text.size());
    const std::string_view item = std::string_view(text).substr(begin, comma - begin);
    const auto dash = item.find('-');
    const int first = number(item.substr(0, dash));
    const int last = dash == std::string_view::npos ? first : number(item.substr(dash + 1));
    if (last < first) refuse("{}: layers = \"{}\": the range {}-{} is empty.", rule.origin, text, first, last);
    ranges.push_back({first, last});
    begin = comma + 1;
  }
  return ranges;
}

}  // namespace

struct RuleMatcher::Compiled {
  std::string pattern, origin;
  std::vector<std::string> op_names;
  std::vector<LayerRange> layers;
  std::unique_ptr<pcre2_code, CodeDeleter> code;
  std::unique_ptr<pcre2_match_data, MatchDeleter> data;
  std::unique_ptr<pcre2_match_context, ContextDeleter> context;
};

RuleMatcher::RuleMatcher(const Rule& rule) : compiled_(std::make_unique<Compiled>()) {
  compiled_->pattern = rule.module_path;
  compiled_->origin = rule.origin;
  compiled_->op_names = rule.op_names;
  compiled_->layers = parse_layers(rule);
  int error = 0;
  PCRE2_SIZE position = 0;
  // As Python's re.fullmatch: both ends anchored, and $ only at the very end.
  compiled_->code.reset(pcre2_compile(reinterpret_cast<PCRE2_SPTR>(rule.module_path.data()), rule.module_path.size(),
                                      PCRE2_ANCHORED | PCRE2_ENDANCHORED | PCRE2_DOLLAR_ENDONLY, &error, &position,
                                      nullptr));
  if (!compiled_->code)
    refuse("{}: module_path \"{}\" is no valid regular expression: {} (at character {}).", rule.origin,
           rule.module_path, pcre_message(error), position + 1);
  compiled_->data.reset(pcre2_match_data_create_from_pattern(compiled_->code.get(), nullptr));
  compiled_->context.reset(pcre2_match_context_create(nullptr));
  pcre2_set_match_limit(compiled_->context.get(),
                        1000000);  // an expression that backtracks for ever is stopped, not waited for
}

RuleMatcher::RuleMatcher(RuleMatcher&&) noexcept = default;
RuleMatcher& RuleMatcher::operator=(RuleMatcher&&) noexcept = default;
RuleMatcher::~RuleMatcher() = default;

bool RuleMatcher::matches(std::string_view path, std::string_view op, int layer) const {
  const Compiled& c = *compiled_;
  if (!c.op_names.empty() && std::find(c.op_names.begin(), c.op_names.end(), op) == c.op_names.end()) return false;
  if (!c.layers.empty() && std::none_of(c.layers.begin(), c.layers.end(),
                                        [&](const LayerRange& r) { return r.first <= layer && layer <= r.last; }))
    return false;
  const int result = pcre2_match(c.code.get(), reinterpret_cast<PCRE2_SPTR>(path.data()), path.size(), 0, 0,
                                 c.data.get(), c.context.get());
  if (result == PCRE2_ERROR_NOMATCH) return false;
  if (result < 0)
    refuse("{}: module_path \"{}\" cannot be matched with \"{}\": {}.", c.origin, c.pattern, path,
           pcre_message(result));
  return true;
}

}  // namespace kvant::quant
