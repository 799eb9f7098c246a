// Regular expressions in Python's syntax, matched as re.fullmatch does, through PCRE2. Where the two dialects read one
// text in two ways, or PCRE2 knows more, the expression is refused: it would mean something else in the reference.
#pragma once

#include <memory>
#include <string>
#include <string_view>

namespace kvant::quant {

class PythonRegex {
 public:
  /// Throws UsageError: what is wrong with it, and at which character (from 1).
  explicit PythonRegex(const std::string& pattern);
  PythonRegex(PythonRegex&&) noexcept;
  PythonRegex& operator=(PythonRegex&&) noexcept;
  ~PythonRegex();

  /// The whole text matches. Throws UsageError where the attempt takes too many steps.
  bool matches(std::string_view text) const;

 private:
  struct Compiled;
  std::unique_ptr<Compiled> compiled_;
};

/// The text as an expression that matches it alone.
std::string escaped(std::string_view text);

}  // namespace kvant::quant
