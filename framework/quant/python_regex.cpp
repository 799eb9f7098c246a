#include "quant/python_regex.hpp"

#include "base/error.hpp"

#define PCRE2_CODE_UNIT_WIDTH 8
#include <pcre2.h>

namespace kvant::quant {
namespace {

struct Deleter {
  void operator()(pcre2_code* p) const { pcre2_code_free(p); }
  void operator()(pcre2_match_data* p) const { pcre2_match_data_free(p); }
  void operator()(pcre2_match_context* p) const { pcre2_match_context_free(p); }
};

std::string pcre_message(int code) {
  PCRE2_UCHAR buffer[256];
  if (pcre2_get_error_message(code, buffer, sizeof buffer) < 0) return fmt::format("error {}", code);
  return reinterpret_cast<const char*>(buffer);
}

PCRE2_SPTR bytes(std::string_view text) { return reinterpret_cast<PCRE2_SPTR>(text.data()); }

bool is_letter(char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z'); }
bool is_one_of(char c, std::string_view set) { return set.find(c) != std::string_view::npos; }

/// The character (from 1) at a byte of UTF-8 text.
std::size_t character_at(std::string_view text, std::size_t byte) {
  std::size_t count = 1;
  for (std::size_t i = 0; i < byte && i < text.size(); ++i) count += (static_cast<unsigned char>(text[i]) & 0xC0) != 0x80;
  return count;
}

/// What PCRE2 would accept and Python's re refuses or reads otherwise.
class Dialect {
 public:
  explicit Dialect(std::string_view pattern) : text_(pattern) {}

  void check() {
    for (at_ = 0; at_ < text_.size(); ++at_) {
      if (text_[at_] == '\\')
        escape();
      else if (in_class_)
        inside_class();
      else if (text_[at_] == '[')
        open_class();
      else if (text_[at_] == '(')
        group();
    }
  }

 private:
  char next(std::size_t ahead) const { return at_ + ahead < text_.size() ? text_[at_ + ahead] : '\0'; }
  template <class... Args>
  [[noreturn]] void wrong(fmt::format_string<Args...> sentence, Args&&... args) const {
    refuse("{} (at character {})", fmt::format(sentence, std::forward<Args>(args)...), character_at(text_, at_));
  }

  void escape() {
    const char c = next(1);
    if (is_letter(c) && !is_one_of(c, in_class_ ? "abfnrtvxuUdDsSwW" : "abfnrtvxuUNAbBdDsSwWZ"))
      wrong("Python's syntax has no escape \\{}", c);
    if (c == 'u' || c == 'U' || c == 'N') wrong("write the character itself instead of \\{}", c);
    ++at_;
  }
  void open_class() {
    in_class_ = true;
    if (next(1) == '^') ++at_;
    if (next(1) == ']') ++at_;  // a bracket that comes first stands for itself
  }
  void inside_class() {
    if (text_[at_] == ']') in_class_ = false;
    if (text_[at_] == '[' && is_one_of(next(1), ":.=")) wrong("Python's syntax has no class [{}…", next(1));
  }
  void group() {
    if (next(1) == '*') wrong("there is nothing to repeat");
    if (next(1) != '?') return;
    const char c = next(2);
    if (c == 'P') {
      if (!is_one_of(next(3), "<=")) wrong("Python's syntax has no (?P{}", next(3) == '\0' ? "" : std::string(1, next(3)));
      return;
    }
    if (c == '<' && !is_one_of(next(3), "=!")) wrong("Python writes a named group (?P<name>…)");
    if (!is_one_of(c, ":=!<>(#-aiLmsux")) wrong("Python's syntax has no (?{}", c == '\0' ? "" : std::string(1, c));
  }

  std::string_view text_;
  std::size_t at_ = 0;
  bool in_class_ = false;
};

}  // namespace

struct PythonRegex::Compiled {
  std::string pattern;
  std::unique_ptr<pcre2_code, Deleter> code;
  std::unique_ptr<pcre2_match_data, Deleter> data;
  std::unique_ptr<pcre2_match_context, Deleter> context;
};

PythonRegex::PythonRegex(const std::string& pattern) : compiled_(std::make_unique<Compiled>()) {
  Dialect(pattern).check();
  compiled_->pattern = pattern;
  int error = 0;
  PCRE2_SIZE position = 0;
  // As re.fullmatch: both ends anchored, and $ only at the very end.
  constexpr uint32_t options =
      PCRE2_ANCHORED | PCRE2_ENDANCHORED | PCRE2_DOLLAR_ENDONLY | PCRE2_UTF | PCRE2_UCP | PCRE2_NEVER_BACKSLASH_C;
  compiled_->code.reset(pcre2_compile(bytes(pattern), pattern.size(), options, &error, &position, nullptr));
  if (!compiled_->code) refuse("{} (at character {})", pcre_message(error), character_at(pattern, position));
  compiled_->data.reset(pcre2_match_data_create_from_pattern(compiled_->code.get(), nullptr));
  compiled_->context.reset(pcre2_match_context_create(nullptr));
  require(compiled_->data != nullptr && compiled_->context != nullptr, "No memory for a regular expression.");
  // An expression that backtracks for ever is stopped, not waited for.
  pcre2_set_match_limit(compiled_->context.get(), 1000000);
  pcre2_set_depth_limit(compiled_->context.get(), 100000);
  pcre2_set_heap_limit(compiled_->context.get(), 65536);
}

PythonRegex::PythonRegex(PythonRegex&&) noexcept = default;
PythonRegex& PythonRegex::operator=(PythonRegex&&) noexcept = default;
PythonRegex::~PythonRegex() = default;

bool PythonRegex::matches(std::string_view text) const {
  const Compiled& c = *compiled_;
  const int result = pcre2_match(c.code.get(), bytes(text), text.size(), 0, 0, c.data.get(), c.context.get());
  if (result == PCRE2_ERROR_NOMATCH) return false;
  if (result < 0) refuse("\"{}\" cannot be matched with \"{}\": {}", c.pattern, text, pcre_message(result));
  return true;
}

std::string escaped(std::string_view text) {
  std::string out;
  for (const char c : text) {
    if (is_one_of(c, "\\^$.|?*+()[]{}")) out += '\\';
    out += c;
  }
  return out;
}

}  // namespace kvant::quant
