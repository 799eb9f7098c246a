#include "data/split.hpp"
#include "base/error.hpp"

#include <algorithm>
#include <catch2/catch_test_macros.hpp>
#include <catch2/matchers/catch_matchers_exception.hpp>
#include <catch2/matchers/catch_matchers_string.hpp>

using Catch::Matchers::ContainsSubstring;
using Catch::Matchers::MessageMatches;
using kvant::data::hold_out;

TEST_CASE("the held-out part has its size, is disjoint and complete, and follows the seed") {
  const auto split = hold_out(1000, 0.05, 3);
  CHECK(split.eval.size() == 50);
  CHECK(std::is_sorted(split.eval.begin(), split.eval.end()));
  CHECK(std::is_sorted(split.train.begin(), split.train.end()));
  std::vector<int64_t> all;
  std::merge(split.train.begin(), split.train.end(), split.eval.begin(), split.eval.end(), std::back_inserter(all));
  REQUIRE(all.size() == 1000);
  for (int64_t d = 0; d < 1000; ++d) CHECK(all[static_cast<size_t>(d)] == d);
  CHECK(hold_out(1000, 0.05, 3).eval == split.eval);
  CHECK(hold_out(1000, 0.05, 4).eval != split.eval);
  // drawn from the whole text, not from one end of it
  CHECK(split.eval.front() < 200);
  CHECK(split.eval.back() >= 800);
}

TEST_CASE("at least one document is held out and never all; none where the fraction is 0") {
  CHECK(hold_out(2, 1e-9, 0).eval.size() == 1);
  CHECK(hold_out(2, 0.999, 0).train.size() == 1);
  CHECK(hold_out(5, 0.0, 0).eval.empty());
  CHECK(hold_out(1, 0.0, 0).train.size() == 1);
}

TEST_CASE("fractions and texts that cannot be split are refused") {
  CHECK_THROWS_MATCHES(hold_out(1, 0.1, 0), kvant::UsageError,
                       MessageMatches(ContainsSubstring("one document") && ContainsSubstring("0.1")));
  CHECK_THROWS_MATCHES(hold_out(10, 1.0, 0), kvant::UsageError,
                       MessageMatches(ContainsSubstring("eval_fraction is 1")));
  CHECK_THROWS_AS(hold_out(10, -0.1, 0), kvant::UsageError);
  CHECK_THROWS_AS(hold_out(10, std::numeric_limits<double>::quiet_NaN(), 0), kvant::UsageError);
}
