#include "data/detail/utf8.hpp"

#include <catch2/catch_test_macros.hpp>

using kvant::data::detail::find_invalid_utf8;
using kvant::data::detail::printable;
using kvant::data::detail::valid_utf8;

TEST_CASE("valid UTF-8 of one to four bytes is accepted") {
  CHECK(find_invalid_utf8("") == valid_utf8);
  CHECK(find_invalid_utf8("plain\n\ttext") == valid_utf8);
  CHECK(
      find_invalid_utf8("\xC2\x80 \xDF\xBF \xE0\xA0\x80 \xED\x9F\xBF \xEE\x80\x80 \xF0\x90\x80\x80 \xF4\x8F\xBF\xBF") ==
      valid_utf8);
  CHECK(find_invalid_utf8(std::string_view("a\0b", 3)) == valid_utf8);
}

TEST_CASE("the first byte that begins no character is found") {
  CHECK(find_invalid_utf8("ab\x92z") == 2);           // continuation without a start
  CHECK(find_invalid_utf8("\xC0\x80") == 0);          // overlong
  CHECK(find_invalid_utf8("x\xC1\xBF") == 1);         // overlong
  CHECK(find_invalid_utf8("\xE0\x9F\xBF") == 0);      // overlong
  CHECK(find_invalid_utf8("\xF0\x8F\xBF\xBF") == 0);  // overlong
  CHECK(find_invalid_utf8("\xED\xA0\x80") == 0);      // surrogate
  CHECK(find_invalid_utf8("\xF4\x90\x80\x80") == 0);  // above U+10FFFF
  CHECK(find_invalid_utf8("\xF5\x80\x80\x80") == 0);
  CHECK(find_invalid_utf8("\xFF") == 0);
  CHECK(find_invalid_utf8("ok\xE2\x82") == 2);  // cut off by the end
  CHECK(find_invalid_utf8("ok\xC3") == 2);
  CHECK(find_invalid_utf8("ok\xF0\x90\x80") == 2);
  CHECK(find_invalid_utf8("\xE2\x82\xAC\xE2\x28\xA1") == 3);  // a start without its continuation
}

TEST_CASE("printable shows valid text as it is and every other byte as a code") {
  CHECK(printable("one\ntwo") == "one\ntwo");
  CHECK(printable("caf\xC3\xA9") == "caf\xC3\xA9");
  CHECK(printable("a\x92\x1B[0m\r\t") == "a\\x92\\x1b[0m\\x0d\\x09");
  CHECK(printable("\xC2\x9B") == "\\xc2\\x9b");  // a control character that some terminals obey
  CHECK(printable("\x7F") == "\\x7f");
}
