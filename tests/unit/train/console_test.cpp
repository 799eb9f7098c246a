#include "train/detail/console.hpp"
#include "support/captured_stream.hpp"

#include <catch2/catch_test_macros.hpp>
#include <catch2/matchers/catch_matchers_string.hpp>
#include <limits>

using namespace kvant::train::detail;
using Catch::Matchers::ContainsSubstring;

TEST_CASE("durations read like a clock") {
  CHECK(duration(0) == "0:00");
  CHECK(duration(83.4) == "1:23");
  CHECK(duration(3723) == "1:02:03");
  CHECK(duration(-1) == "?");
  CHECK(duration(std::numeric_limits<double>::infinity()) == "?");
  CHECK(duration(1e9) == "?");
}

TEST_CASE("the bar shows the share, the time that is left and the note, and stays within the width") {
  CHECK(bar(0, 100, 0, "", 80) == "[------------------------------]  0/100  0%  ? left  ");
  CHECK(bar(50, 100, 10, "loss 2.000", 80) == "[###############---------------]  50/100  50%  0:10 left  loss 2.000");
  CHECK(bar(100, 100, 10, "", 80) == "[##############################]  100/100  100%  0:00 left  ");
  CHECK(bar(50, 100, 10, "loss 2.000", 40).size() == 39);
  CHECK(bar(0, 0, 0, "", 80).starts_with("[######"));
}

TEST_CASE("without a terminal there are lines alone, with one there is a bar that lines push down") {
  kvant::test::CapturedStream plain, terminal;
  {
    Console console(plain.get(), false, 3);
    console.progress(1, "note");
    console.line("one");
    console.finish();
  }
  CHECK(plain.text() == "one\n");
  Console console(terminal.get(), true, 3);
  console.line("zero");
  console.progress(1, "note");
  const std::string drawn = terminal.text();
  CHECK_THAT(drawn, ContainsSubstring("zero\n\r\033[K[##########----") && ContainsSubstring("1/3") &&
                        ContainsSubstring("note\r"));
  console.progress(2, "too soon");  // not drawn: less than a tenth of a second later
  CHECK(terminal.text() == drawn);
  console.line("one");
  CHECK_THAT(terminal.text().substr(drawn.size()), ContainsSubstring("\r\033[Kone\n\r\033[K[##########----"));
  console.progress(3, "last");  // always drawn
  CHECK_THAT(terminal.text(), ContainsSubstring("3/3"));
  console.finish();
  CHECK(terminal.text().ends_with("\r\033[K"));
}
