#include "kernels/router.hpp"

#include "reference/router.hpp"
#include "support/kernel_case.hpp"

#include <catch2/generators/catch_generators.hpp>
#include <catch2/matchers/catch_matchers_string.hpp>

#include <limits>
#include <set>

namespace {

using namespace kvant;
using namespace kvant::test;

RouterConfig config_of(int experts, int k, int groups = 0, int topk_groups = 0) {
  RouterConfig c;
  c.experts = experts;
  c.k = k;
  c.groups = groups;
  c.topk_groups = topk_groups;
  c.scaling = 2.5f;
  return c;
}

RouterConfig next_config() {
  RouterConfig c = GENERATE(config_of(1, 1), config_of(8, 2), config_of(17, 17), config_of(64, 6),
                            config_of(16, 4, 4, 2), config_of(256, 8, 8, 4), config_of(12, 3, 12, 5));
  c.score =
      GENERATE(ScoreFunction::identity, ScoreFunction::softmax, ScoreFunction::sigmoid, ScoreFunction::sqrtsoftplus);
  c.deepseek = GENERATE(true, false);
  c.norm_topk = !c.deepseek;
  return c;
}

struct Routed {
  Stored score, index, weight, nonfinite;
  Routed(const Exec& exec, const RouterConfig& c, const Stored& logits, TensorView bias)
      : score(DType::f32, logits.view().shape),
        index(DType::i32, {logits.view().shape[0], c.k}),
        weight(DType::f32, {logits.view().shape[0], c.k}),
        nonfinite({1}, {0}) {
    router_forward(exec, logits, bias, c, score, index, weight, nonfinite);
  }
};

Values row_of(const Values& x, std::size_t row, std::size_t width) {
  return {x.begin() + static_cast<std::ptrdiff_t>(row * width),
          x.begin() + static_cast<std::ptrdiff_t>((row + 1) * width)};
}

std::vector<int> row_of(const std::vector<int>& x, std::size_t row, std::size_t width) {
  return {x.begin() + static_cast<std::ptrdiff_t>(row * width),
          x.begin() + static_cast<std::ptrdiff_t>((row + 1) * width)};
}

}  // namespace

TEST_CASE("router forward agrees with double precision for every score, with and without bias and groups") {
  RouterConfig c = next_config();
  c.bias_in_selection = GENERATE(false, true);
  const Exec exec;
  const long rows = 33;
  const auto x = static_cast<std::size_t>(c.experts), k = static_cast<std::size_t>(c.k);
  const Stored logits(DType::f32, {rows, c.experts}, random_values(static_cast<std::size_t>(rows) * x, 1, 4.0));
  const Stored bias(DType::f32, {c.experts}, random_values(x, 2, 0.3));
  const Routed r(exec, c, logits, c.bias_in_selection ? bias.view() : TensorView{});
  CHECK(r.nonfinite.ints() == std::vector<int>{0});
  for (std::size_t t = 0; t < static_cast<std::size_t>(rows); ++t) {
    const Values s = reference::scores(row_of(logits.values(), t, x), c.score);
    check_close(row_of(r.score.get(), t, x), s, 1e-6, 1e-12);
    // The choice among the kernel's own scores: rounding may order two nearly equal ones otherwise than double does.
    Values ranked = row_of(r.score.get(), t, x);
    for (std::size_t e = 0; e < x && c.bias_in_selection; ++e)
      ranked[e] = static_cast<float>(ranked[e]) + static_cast<float>(bias.values()[e]);
    const std::vector<int> index = row_of(r.index.ints(), t, k);
    CHECK(index == reference::choose(c, ranked));
    check_close(row_of(r.weight.get(), t, k), reference::weights(c, s, index), 3e-6, 1e-9);
  }
  const Stored in_place(DType::f32, {rows, c.experts}, logits.values()), index(DType::i32, {rows, c.k}),
      weight(DType::f32, {rows, c.k});
  router_forward(exec, in_place, c.bias_in_selection ? bias.view() : TensorView{}, c, in_place, index, weight,
                 r.nonfinite);
  CHECK(in_place.get() == r.score.get());
  CHECK(weight.bytes() == r.weight.bytes());
}

TEST_CASE("group routing chooses as in the published vectors") {
  const RouterConfig c = [] {
    RouterConfig r = config_of(16, 4, 4, 2);
    r.score = ScoreFunction::identity;
    r.bias_in_selection = true;
    r.scaling = 1.0f;
    return r;
  }();
  const Exec exec;
  const Values biased{.20, .10, .05, .10, .10, .60, .30, .10, .80, .01, .01, .01, .05, .80, .20, .10,
                      .68, .20, .06, .03, .32, .10, .05, .02, .65, .20, .04, .01, .32, .10, .05, .02};
  Values pre_bias = biased;
  for (double& v : pre_bias) v -= 0.5;
  const Stored logits(DType::f32, {2, 16}, pre_bias), bias(DType::f32, {16}, Values(16, 0.5));
  const Routed r(exec, c, logits, bias);
  CHECK(r.index.ints() == std::vector<int>{13, 5, 6, 14, 0, 8, 1, 9});
  check_close(r.weight.get(), {.30, .10, -.20, -.30, .18, .15, -.30, -.30}, 1e-5, 1e-5);
}

TEST_CASE("ties go to the lower index, in the choice of experts and of groups") {
  const Exec exec;
  const Stored flat(DType::f32, {1, 8}, Values(8, 0.25));
  CHECK(Routed(exec, config_of(8, 3), flat, {}).index.ints() == std::vector<int>{0, 1, 2});
  CHECK(Routed(exec, config_of(8, 3, 4, 2), flat, {}).index.ints() == std::vector<int>{0, 1, 2});
  const Stored late(DType::f32, {1, 8}, {0, 0, 1, 0, 0, 1, 0, 1});
  CHECK(Routed(exec, config_of(8, 4), late, {}).index.ints() == std::vector<int>{2, 5, 7, 0});
}

TEST_CASE("a planted outlier is chosen first at every position") {
  const int experts = GENERATE(1, 16, 31, 48, 77);
  const ScoreFunction function = GENERATE(ScoreFunction::identity, ScoreFunction::softmax);
  const Exec exec;
  for (const std::size_t at : outlier_positions(static_cast<std::size_t>(experts))) {
    Values z = random_values(static_cast<std::size_t>(experts), 3);
    z[at] = 1e4;
    RouterConfig c = config_of(experts, 1);
    c.score = function;
    CHECK(Routed(exec, c, Stored(DType::f32, {1, experts}, z), {}).index.ints() ==
          std::vector<int>{static_cast<int>(at)});
    z[at] = -1e4;
    c.k = experts;
    CHECK(Routed(exec, c, Stored(DType::f32, {1, experts}, z), {}).index.ints().back() == static_cast<int>(at));
  }
}

TEST_CASE("logits that bfloat16 cannot tell apart are told apart") {  // report D14
  RouterConfig c = config_of(2, 1);
  c.score = GENERATE(ScoreFunction::identity, ScoreFunction::softmax, ScoreFunction::sigmoid, ScoreFunction::sqrtsoftplus);
  const Exec exec;
  CHECK(Routed(exec, c, Stored(DType::f32, {2, 2}, {1.0, 1.0009765625, 1.0009765625, 1.0}), {}).index.ints() == std::vector<int>{1, 0});
}

TEST_CASE("NaN and infinite logits are counted, rank last and never give a wrong index") {
  RouterConfig c = config_of(8, 4);
  c.score =
      GENERATE(ScoreFunction::identity, ScoreFunction::softmax, ScoreFunction::sigmoid, ScoreFunction::sqrtsoftplus);
  c.deepseek = GENERATE(true, false);
  c.groups = GENERATE(0, 2);
  c.topk_groups = 2 * (c.groups > 0);
  const Exec exec;
  const double nan = std::nan(""), inf = std::numeric_limits<double>::infinity();
  const Stored logits(DType::f32, {6, 8}, {nan, 1,   2,   3,   4,    5,    6,   7,    //
                                           0,   1,   inf, 3,   -inf, 5,    6,   nan,  //
                                           nan, 1,   nan, nan, nan,  2,    nan, nan,  //
                                           nan, nan, nan, nan, nan,  nan,  nan, nan,  //
                                           inf, inf, inf, inf, -inf, -inf, inf, inf,  //
                                           7,   6,   5,   4,   3,    2,    1,   0});
  const Routed r(exec, c, logits, {});
  CHECK(r.nonfinite.ints() == std::vector<int>{1 + 3 + 6 + 8 + 8});
  const std::vector<int> expected{7, 6, 5, 4, 6, 5, 3, 1, 5, 1, 0, 2, 0, 1, 2, 3, 0, 1, 2, 3, 0, 1, 2, 3};
  CHECK(r.index.ints() == expected);
  for (const double s : r.score.get()) CHECK(std::isfinite(s));
  for (const double w : r.weight.get()) CHECK(std::isfinite(w));
  CHECK(r.score.get()[0] == 0.0);
  for (std::size_t t = 0; t < 6; ++t) {
    const auto index = row_of(r.index.ints(), t, 4);
    CHECK(std::set<int>(index.begin(), index.end()).size() == 4);
  }
}

TEST_CASE("a NaN in the bias is counted for every token and ranks last") {
  RouterConfig c = config_of(4, 2);
  c.bias_in_selection = true;
  const Exec exec;
  const Stored logits(DType::f32, {3, 4}, random_values(12, 1)), bias(DType::f32, {4}, {0.0, std::nan(""), 0.0, 5.0});
  const Routed r(exec, c, logits, bias);
  CHECK(r.nonfinite.ints() == std::vector<int>{3});
  for (const int e : r.index.ints()) CHECK(e != 1);
}

TEST_CASE("router backward agrees with double precision") {
  const RouterConfig c = next_config();
  const Write mode = GENERATE(Write::overwrite, Write::accumulate);
  const Exec exec;
  const long rows = 9;
  const auto x = static_cast<std::size_t>(c.experts), k = static_cast<std::size_t>(c.k),
             n = static_cast<std::size_t>(rows);
  const Stored logits(DType::f32, {rows, c.experts}, random_values(n * x, 4, 4.0));
  const Routed r(exec, c, logits, {});
  const Stored dweight(DType::f32, {rows, c.k}, random_values(n * k, 5)),
      dlogits(DType::f32, {rows, c.experts}, random_values(n * x, 6));
  router_backward(exec, r.score, r.index, dweight, c, dlogits, mode);
  for (std::size_t t = 0; t < n; ++t) {
    Values expected = reference::router_backward(c, row_of(logits.values(), t, x), row_of(r.index.ints(), t, k),
                                                 row_of(dweight.values(), t, k));
    if (mode == Write::accumulate)
      for (std::size_t e = 0; e < x; ++e) expected[e] += dlogits.values()[t * x + e];
    check_close(row_of(dlogits.get(), t, x), expected, 5e-6, 1e-6);
  }
}

TEST_CASE("sqrtsoftplus keeps its gradient where the score underflows") {
  RouterConfig c = config_of(4, 2);
  c.score = ScoreFunction::sqrtsoftplus;
  const Exec exec;
  const Stored logits(DType::f32, {2, 4}, {-1000.0, -1000.0, -1000.0, -1000.0, -18.0, -20.0, -40.0, -60.0}),
      dweight(DType::f32, {2, 2}, {1.0, -1.0, 1.0, -1.0});
  const Routed r(exec, c, logits, {});
  const Stored dlogits(DType::f32, {2, 4});
  router_backward(exec, r.score, r.index, dweight, c, dlogits, Write::overwrite);
  CHECK(row_of(dlogits.get(), 0, 4) == Values(4));
  check_close(row_of(dlogits.get(), 1, 4),
              reference::router_backward(c, row_of(logits.values(), 1, 4), {0, 1}, {1.0, -1.0}), 1e-5, 0.0);
}

TEST_CASE("the double reference of the router has the gradient that finite differences give") {
  const RouterConfig c = [] {
    RouterConfig r = config_of(6, 3);
    r.score =
        GENERATE(ScoreFunction::identity, ScoreFunction::softmax, ScoreFunction::sigmoid, ScoreFunction::sqrtsoftplus);
    r.deepseek = GENERATE(true, false);
    return r;
  }();
  const Values z = random_values(6, 1, 2.0), dw = random_values(3, 2);
  const std::vector<int> index{4, 0, 3};
  check_gradient([&](const Values& v) { return dot(reference::weights(c, reference::scores(v, c.score), index), dw); },
                 z, reference::router_backward(c, z, index, dw));
}

TEST_CASE("the router refuses what cannot be routed") {
  using Catch::Matchers::ContainsSubstring;
  CHECK_THROWS_WITH(check(config_of(4, 5)), ContainsSubstring("num_experts_per_tok is 5 and num_experts is 4"));
  CHECK_THROWS_WITH(check(config_of(4, 0)), ContainsSubstring("at least 1"));
  CHECK_THROWS_WITH(check(config_of(10, 2, 3, 1)), ContainsSubstring("n_routing_groups is 3 with 10 experts"));
  CHECK_THROWS_WITH(check(config_of(256, 2, 128, 1)), ContainsSubstring("at most 64"));
  CHECK_THROWS_WITH(check(config_of(8, 3, 4, 1)),
                    ContainsSubstring("topk_routing_group is 1 of 4 groups of 2 experts"));
  CHECK_THROWS_WITH(check(config_of(8, 2, 4, 5)), ContainsSubstring("topk_routing_group is 5"));
  const Exec exec;
  const Stored logits(DType::f32, {1, 4}, Values(4)), index(DType::i32, {1, 2}), weight(DType::f32, {1, 2}),
      bad({1}, {0});
  RouterConfig c = config_of(4, 2);
  CHECK_THROWS_WITH(router_forward(exec, logits, Stored(DType::f32, {4}, Values(4)), c, logits, index, weight, bad),
                    ContainsSubstring("bias_in_selection is false and the bias is given"));
  c.bias_in_selection = true;
  CHECK_THROWS_WITH(router_forward(exec, logits, {}, c, logits, index, weight, bad),
                    ContainsSubstring("the bias is empty"));
  CHECK_THROWS_WITH(
      router_backward(exec, logits, index, Stored(DType::f32, {1, 3}), config_of(4, 2), logits, Write::overwrite),
      ContainsSubstring("dweight must be 2"));
}
