#include "kernels/rope.hpp"

#include "reference/rope.hpp"
#include "support/kernel_case.hpp"

#include <catch2/generators/catch_generators.hpp>
#include <catch2/matchers/catch_matchers_string.hpp>

using namespace kvant;
using namespace kvant::test;

namespace {

Values as_doubles(const std::vector<float>& x) { return {x.begin(), x.end()}; }

}  // namespace

TEST_CASE("plain frequencies") {
  const int d = GENERATE(2, 6, 64, 128);
  const RopeTable t = make_rope_table({.dim = d, .theta = 10000.0});
  check_close(as_doubles(t.frequency), reference::rope_frequencies(d, 10000.0), 1e-7, 0.0);
  CHECK(t.attention_scale == 1.0f);
}

TEST_CASE("YaRN frequencies of the DeepSeek models") {
  // 64 ln(4096 / (2 pi r)) / (2 ln 10000): 10.47 for r = 32, 22.51 for r = 1
  const RopeConfig c{.dim = 64, .yarn = true};
  check_close(as_doubles(make_rope_table(c).frequency), reference::yarn_frequencies(64, 10000.0, 40.0, 10.0, 23.0),
              1e-7, 0.0);
  RopeConfig exact = c;
  exact.truncate = false;
  const double low = 64.0 * std::log(4096.0 / (64.0 * std::numbers::pi)) / (2.0 * std::log(10000.0));
  const double high = 64.0 * std::log(4096.0 / (2.0 * std::numbers::pi)) / (2.0 * std::log(10000.0));
  CHECK(low > 10.0);
  CHECK(high < 23.0);
  check_close(as_doubles(make_rope_table(exact).frequency), reference::yarn_frequencies(64, 10000.0, 40.0, low, high),
              1e-7, 0.0);
}

TEST_CASE("YaRN's ramp is clamped to [0, dim - 1], and widened where it has no width") {
  // dim 4, context 64: turns 32 and 1 give indices -0.25 and 0.504; rounded and clamped 0 and 1
  check_close(
      as_doubles(make_rope_table({.dim = 4, .yarn = true, .factor = 8.0, .original_max_position = 64.0}).frequency),
      reference::yarn_frequencies(4, 10000.0, 8.0, 0.0, 1.0), 1e-7, 0.0);
  // theta 2: the slow end is index 37.4 of dim 8, clamped to 7 (dim - 1, not dim / 2 - 1)
  check_close(as_doubles(make_rope_table({.dim = 8,
                                          .theta = 2.0,
                                          .yarn = true,
                                          .factor = 8.0,
                                          .original_max_position = 4096.0,
                                          .beta_fast = 600.0})
                             .frequency),
              reference::yarn_frequencies(8, 2.0, 8.0, 0.0, 7.0), 1e-7, 0.0);
  // kimi-k2: beta_fast = beta_slow = 1, theta 50000, both ends at 19 and 20
  check_close(
      as_doubles(
          make_rope_table({.dim = 64, .theta = 50000.0, .yarn = true, .factor = 32.0, .beta_fast = 1.0}).frequency),
      reference::yarn_frequencies(64, 50000.0, 32.0, 19.0, 20.0), 1e-7, 0.0);
  // the same without rounding: no width, so 0.001
  const double both = 64.0 * std::log(4096.0 / (2.0 * std::numbers::pi)) / (2.0 * std::log(50000.0));
  check_close(
      as_doubles(make_rope_table(
                     {.dim = 64, .theta = 50000.0, .yarn = true, .factor = 32.0, .beta_fast = 1.0, .truncate = false})
                     .frequency),
      reference::yarn_frequencies(64, 50000.0, 32.0, both, both + 0.001), 1e-7, 0.0);
}

TEST_CASE("rope_attention_scaling") {
  RopeConfig c{.dim = 8, .yarn = true, .factor = 40.0, .attention_scaling = true};
  CHECK(std::fabs(make_rope_table(c).attention_scale - (0.1 * std::log(40.0) + 1.0)) < 1e-6);
  c.attention_scaling = false;
  CHECK(make_rope_table(c).attention_scale == 1.0f);
}

TEST_CASE("the rotation keeps lengths and depends on differences of positions only") {
  const Values f = reference::rope_frequencies(8, 100.0), a = random_values(8, 1), b = random_values(8, 2);
  const bool interleave = GENERATE(false, true);
  const auto score = [&](double i, double j) {
    return dot(reference::rotate(a, i, f, 1.0, interleave), reference::rotate(b, j, f, 1.0, interleave));
  };
  CHECK(std::fabs(score(3, 3) - dot(a, b)) < 1e-6);
  CHECK(std::fabs(score(9, 4) - score(15, 10)) < 1e-5);
}

TEST_CASE("rope refuses settings that make no frequencies") {
  using Catch::Matchers::ContainsSubstring;
  CHECK_THROWS_WITH(make_rope_table({.dim = 7}), ContainsSubstring("qk_rope_head_dim is 7; it must be even"));
  CHECK_THROWS_WITH(make_rope_table({.dim = 0}), ContainsSubstring("at least 2"));
  CHECK_THROWS_WITH(make_rope_table({.dim = 1024}), ContainsSubstring("at most 512"));
  CHECK_THROWS_WITH(make_rope_table({.dim = 8, .theta = 1.0}), ContainsSubstring("rope_max_timescale is 1"));
  CHECK_THROWS_WITH(make_rope_table({.dim = 8, .yarn = true, .factor = 0.5}), ContainsSubstring("rope_factor is 0.5"));
  CHECK_THROWS_WITH(make_rope_table({.dim = 8, .yarn = true, .original_max_position = 0.0}),
                    ContainsSubstring("original_max_position_embeddings is 0"));
  CHECK_THROWS_WITH(make_rope_table({.dim = 8, .yarn = true, .beta_fast = 1.0, .beta_slow = 2.0}),
                    ContainsSubstring("beta_fast is 1 and beta_slow is 2"));
}
