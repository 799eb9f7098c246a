#include "config/suggest.hpp"

#include <catch2/catch_test_macros.hpp>

using namespace kvant::config;

TEST_CASE("edit distance counts insertions, deletions, replacements and swaps of neighbours") {
  CHECK(edit_distance("", "") == 0);
  CHECK(edit_distance("abc", "") == 3);
  CHECK(edit_distance("", "abc") == 3);
  CHECK(edit_distance("steps", "stps") == 1);
  CHECK(edit_distance("steps", "stpes") == 1);
  CHECK(edit_distance("kitten", "sitting") == 3);
}

TEST_CASE("the nearest name is the one that was probably meant, or none") {
  CHECK(nearest("learning_rte", {"steps", "learning_rate", "learning_rate_schedule_steps"}) == "learning_rate");
  CHECK(nearest("num_steps", {"eval_steps", "steps"}) == "steps");
  CHECK(nearest("clipping_threshold", {"adam_b1", "gradient_clipping_threshold"}) == "gradient_clipping_threshold");
  CHECK(nearest("num_experts_per_token", {"num_experts", "num_experts_per_tok"}) == "num_experts_per_tok");
  CHECK(nearest("zzz", {"steps", "seed"}) == "");
  CHECK(nearest("ab", {"cd"}) == "");
  CHECK(nearest("x", {}) == "");
}

TEST_CASE("names that differ in hyphens and case only are one name") {
  CHECK(normalised("Num-Experts per_Tok") == "num_experts_per_tok");
  CHECK(distance("num-experts", "num_experts") == 0);
}

TEST_CASE("a list ends in 'and', or in how many more there are") {
  CHECK(listed({}) == "");
  CHECK(listed({"a"}) == "a");
  CHECK(listed({"a", "b", "c"}) == "a, b and c");
  CHECK(listed({"a", "b"}, 12, "or") == "a or b");
  CHECK(listed({"a", "b", "c", "d"}, 2) == "a, b and 2 more");
}
