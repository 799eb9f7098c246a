#include "kernels/load_balance.hpp"

#include "reference/load_balance.hpp"
#include "support/kernel_case.hpp"

#include <catch2/generators/catch_generators.hpp>
#include <catch2/matchers/catch_matchers_string.hpp>

namespace {

using namespace kvant;
using namespace kvant::test;

struct Case {
  long batch, sequence;
  int experts, k;
  std::size_t tokens() const { return static_cast<std::size_t>(batch * sequence); }
  std::size_t values() const { return tokens() * static_cast<std::size_t>(experts); }
};

Case next_case() { return GENERATE(Case{1, 1, 2, 1}, Case{2, 7, 15, 3}, Case{3, 65, 16, 2}, Case{2, 130, 33, 4}); }

Values scores_of(const Values& logits, std::size_t experts, ScoreFunction f) {
  Values all;
  for (std::size_t at = 0; at < logits.size(); at += experts) {
    const Values s = reference::scores(
        {logits.begin() + static_cast<std::ptrdiff_t>(at), logits.begin() + static_cast<std::ptrdiff_t>(at + experts)},
        f);
    all.insert(all.end(), s.begin(), s.end());
  }
  return all;
}

}  // namespace

TEST_CASE("the load-balance loss and its gradient agree with double precision") {
  const Case c = next_case();
  const ScoreFunction f =
      GENERATE(ScoreFunction::identity, ScoreFunction::softmax, ScoreFunction::sigmoid, ScoreFunction::sqrtsoftplus);
  const Exec exec;
  const auto x = static_cast<std::size_t>(c.experts), b = static_cast<std::size_t>(c.batch);
  const float lambda = 0.01f;
  const Values logits = random_values(c.values(), 1, 3.0);
  const Stored score(DType::f32, {c.batch * c.sequence, c.experts}, scores_of(logits, x, f));
  // the last expert stays empty
  const std::vector<int> chosen = random_ints(c.tokens() * static_cast<std::size_t>(c.k), 2, c.experts - 1);
  const Stored index({c.batch * c.sequence, c.k}, chosen), density(DType::f32, {c.batch, c.experts}),
      loss(DType::f32, {1}, Values{0.5});
  Arena workspace("test");
  load_balance_forward(exec, score, index, c.batch, lambda, density, loss, Write::accumulate, workspace);
  const Values expected_density = reference::density(chosen, b, x);
  const double expected = reference::load_balance(score.values(), expected_density, b, x, lambda);
  check_close(density.get(), expected_density, 1e-6, 0.0);
  check_close(loss.get(), {0.5 + expected}, 1e-6, 0.0);
  load_balance_forward(exec, score, index, c.batch, lambda, density, loss, Write::overwrite, workspace);
  check_close(loss.get(), {expected}, 1e-6, 0.0);
  CHECK(workspace.used() == 0);

  const Stored dlogits(DType::f32, {c.batch * c.sequence, c.experts}, random_values(c.values(), 3, 1e-3));
  load_balance_backward(exec, score, density, lambda, f, dlogits);
  Values g = reference::load_balance_backward(logits, expected_density, b, x, lambda, f);
  double largest = 0.0;
  for (std::size_t i = 0; i < g.size(); ++i) {
    largest = std::max(largest, std::fabs(g[i]));
    g[i] += dlogits.values()[i];
  }
  check_close(dlogits.get(), g, 1e-6, 2e-6 * largest + 1e-10);
}

TEST_CASE("the load-balance loss is lambda where all is even") {
  const Exec exec;
  const Stored score(DType::f32, {4, 4}, Values(16, 0.3)), index({4, 1}, {0, 1, 2, 3}), density(DType::f32, {1, 4}),
      loss(DType::f32, {1});
  Arena workspace("test");
  load_balance_forward(exec, score, index, 1, 0.25f, density, loss, Write::overwrite, workspace);
  CHECK(loss.get() == Values{0.25});
}

TEST_CASE("the double reference of the load-balance loss has the gradient that finite differences give") {
  const ScoreFunction f =
      GENERATE(ScoreFunction::identity, ScoreFunction::softmax, ScoreFunction::sigmoid, ScoreFunction::sqrtsoftplus);
  const Values logits = random_values(6 * 5, 1, 2.0);
  const Values d = reference::density(random_ints(12, 2, 5), 2, 5);
  check_gradient([&](const Values& z) { return reference::load_balance(scores_of(z, 5, f), d, 2, 5, 0.7); }, logits,
                 reference::load_balance_backward(logits, d, 2, 5, 0.7, f));
}

TEST_CASE("the router bias moves by the sign of the load") {
  const Exec exec;
  const Stored offsets({5}, {0, 5, 9, 12, 16}), counts(DType::i32, {4}), bias(DType::f32, {4}, Values(4));
  expert_counts(exec, offsets, counts, Write::overwrite);
  CHECK(counts.ints() == std::vector<int>{5, 4, 3, 4});
  router_bias_update(exec, counts, 0.01f, bias);
  check_close(bias.get(), {-0.01, 0.0, 0.01, 0.0}, 1e-6, 0.0);
  expert_counts(exec, offsets, counts, Write::accumulate);
  CHECK(counts.ints() == std::vector<int>{10, 8, 6, 8});
  // a mean that no float32 holds exactly: 1 of 3 tokens each but one
  const Stored large({3}, {100000001, 100000000, 100000000}), b(DType::f32, {3}, Values(3));
  router_bias_update(exec, large, 1.0f, b);
  CHECK(b.get() == Values{-1.0, 1.0, 1.0});
  const Stored even({3}, {7, 7, 7});
  router_bias_update(exec, even, 1.0f, b);
  CHECK(b.get() == Values{-1.0, 1.0, 1.0});
}

TEST_CASE("load balance refuses what does not fit") {
  using Catch::Matchers::ContainsSubstring;
  const Exec exec;
  Arena workspace("test");
  const Stored score(DType::f32, {5, 4}), index({5, 1}, {0, 0, 0, 0, 0}), density(DType::f32, {2, 4}),
      loss(DType::f32, {1}), counts({3}, {1, 1, 1});
  CHECK_THROWS_WITH(load_balance_forward(exec, score, index, 2, 1.0f, density, loss, Write::overwrite, workspace),
                    ContainsSubstring("5 tokens are not 2 sequences"));
  CHECK_THROWS_WITH(load_balance_backward(exec, score, density, 1.0f, ScoreFunction::sigmoid, score),
                    ContainsSubstring("5 tokens are not 2 sequences"));
  CHECK_THROWS_WITH(expert_counts(exec, counts, counts, Write::overwrite), ContainsSubstring("offsets must be 4"));
  CHECK_THROWS_WITH(router_bias_update(exec, counts, 1.0f, density), ContainsSubstring("bias must be 3"));
}
