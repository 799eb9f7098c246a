#include "quant/python_regex.hpp"

#include "base/error.hpp"

#include <catch2/catch_test_macros.hpp>
#include <catch2/matchers/catch_matchers_string.hpp>

using namespace kvant;
using namespace kvant::quant;
using Catch::Matchers::ContainsSubstring;
using Catch::Matchers::EndsWith;

namespace {
bool matches(const char* pattern, const char* text) { return PythonRegex(pattern).matches(text); }
}  // namespace

TEST_CASE("expressions mean what they mean in Python's re.fullmatch", "[quant]") {
  CHECK(matches("", ""));
  CHECK_FALSE(matches("", "a"));
  CHECK_FALSE(matches(".+", ""));
  CHECK(matches("decoder.moe_layers", "decoder/moe_layers"));  // a dot matches a slash
  CHECK(matches("a|ab", "ab"));
  CHECK(matches("(?!.*/gate$)decoder/.*", "decoder/x"));
  CHECK_FALSE(matches("(?!.*/gate$)decoder/.*", "decoder/gate"));
  CHECK_FALSE(matches(".*(?<!wo)", "mlp/wo"));
  CHECK(matches("^a$", "a"));
  CHECK_FALSE(matches("a$", "a\n"));
  CHECK(matches("(?i)DECODER", "decoder"));
  CHECK(matches("(?P<n>a)(?P=n)", "aa"));
  CHECK(matches("[]a]+", "]a"));
  CHECK(matches("[^]]", "a"));
  CHECK(matches("[[]", "["));
  CHECK(matches("(?:wi_[01])", "wi_1"));
  CHECK(matches("\\w+\\.\\d{2,3}", "a_b.123"));
  CHECK(matches("(?x) a b", "ab"));
  CHECK(matches("\xc3\xa9+", "\xc3\xa9\xc3\xa9"));
}

TEST_CASE("what does not compile is refused with its position", "[quant]") {
  const auto refused = [](const char* pattern, const char* what, int character) {
    INFO(pattern);
    CHECK_THROWS_WITH(PythonRegex(pattern), ContainsSubstring(what) && EndsWith("(at character " + std::to_string(character) + ")"));
  };
  refused("decoder/(", "missing closing parenthesis", 10);
  refused("a[b", "missing terminating ]", 4);
  refused("\xc3\xa9(", "missing closing parenthesis", 3);  // characters, not bytes
  for (const char* pattern : {"*a", "(?P<n>a)(?P=m)", "a{2,1}", "[z-a]"}) {  // PCRE2's versions differ in where they put the finger
    INFO(pattern);
    CHECK_THROWS_WITH(PythonRegex(pattern), ContainsSubstring("(at character "));
  }
}

TEST_CASE("what PCRE2 reads and Python does not is refused, not reinterpreted", "[quant]") {
  const auto refused = [](const char* pattern, const char* what) {
    INFO(pattern);
    CHECK_THROWS_WITH(PythonRegex(pattern), ContainsSubstring(what));
  };
  refused("a\\hb", "no escape \\h");
  refused("\\Qa.b\\E", "no escape \\Q");
  refused("a\\Kb", "no escape \\K");
  refused("[\\A]", "no escape \\A");
  refused("[[:alpha:]]", "no class [:");
  refused("(*ACCEPT)a", "nothing to repeat");
  refused("(?R)", "no (?R");
  refused("(?1)(a)", "no (?1");
  refused("(?|a|b)", "no (?|");
  refused("(?<n>a)", "(?P<name>");
  refused("(?P>n)", "no (?P>");
  refused("(?", "no (?");
  refused("\\u0041", "write the character itself");
}

TEST_CASE("an expression that backtracks for ever is stopped", "[quant]") {
  CHECK_THROWS_WITH(matches("(a|aa)+c?", "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaab"), ContainsSubstring("cannot be matched"));
}

TEST_CASE("an escaped text matches itself alone", "[quant]") {
  const std::string text = "a.b|c(d)[e]{f}^g$*+?\\h";
  CHECK(PythonRegex(escaped(text)).matches(text));
  CHECK_FALSE(PythonRegex(escaped("a.b")).matches("axb"));
}
