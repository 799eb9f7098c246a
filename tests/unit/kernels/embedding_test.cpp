#include "kernels/embedding.hpp"

#include "reference/embedding.hpp"
#include "support/kernel_case.hpp"

#include <catch2/generators/catch_generators.hpp>
#include <catch2/matchers/catch_matchers_string.hpp>

namespace {

using namespace kvant;
using namespace kvant::test;

struct Case {
  long tokens, d;
  int vocabulary;
};

Case next_case() {
  return GENERATE(Case{1, 1, 1}, Case{7, 15, 3}, Case{40, 16, 100}, Case{33, 17, 4}, Case{12, 1030, 9});
}

}  // namespace

TEST_CASE("embedding forward looks rows up, backward sums them in token order") {
  const DType dtype = GENERATE(DType::f32, DType::bf16);
  const Case c = next_case();
  const Exec exec;
  const auto d = static_cast<std::size_t>(c.d), rows = static_cast<std::size_t>(c.tokens),
             v = static_cast<std::size_t>(c.vocabulary);
  const std::vector<int> tokens = random_ints(rows, 1, c.vocabulary);  // repeats wherever tokens > vocabulary
  const Stored ids({c.tokens}, tokens), table(DType::f32, {c.vocabulary, c.d}, random_values(v * d, 2)),
      y(dtype, {c.tokens, c.d}, 3), bad({1}, {0});
  embedding_forward(exec, ids, table, y, bad);
  CHECK(y.get() == Stored(dtype, {c.tokens, c.d}, reference::embedding(tokens, table.values(), d)).values());
  CHECK(y.padding_untouched());
  CHECK(bad.ints() == std::vector<int>{0});

  const Stored dy(dtype, {c.tokens, c.d}, random_values(rows * d, 3), 5),
      dtable(DType::f32, {c.vocabulary, c.d}, random_values(v * d, 4));
  embedding_backward(exec, ids, dy, dtable);
  Values expected = reference::embedding_backward(tokens, dy.values(), d, v);
  for (std::size_t i = 0; i < expected.size(); ++i) expected[i] += dtable.values()[i];
  check_close(dtable.get(), expected, 1e-6, 2e-6);
}

TEST_CASE("ids outside the vocabulary are counted, read nothing and write nothing") {
  const DType dtype = GENERATE(DType::f32, DType::bf16);
  const Exec exec;
  const std::vector<int> tokens{0, -1, 4, 3, 2147483647, -2147483647 - 1, 2};
  const Stored ids({7}, tokens), table(DType::f32, {4, 1100}, random_values(4400, 2)), y(dtype, {7, 1100}),
      bad({1}, {5});
  embedding_forward(exec, ids, table, y, bad);
  CHECK(bad.ints() == std::vector<int>{9});  // adds 4
  CHECK(y.get() == Stored(dtype, {7, 1100}, reference::embedding(tokens, table.values(), 1100)).values());
  const Stored dy(dtype, {7, 1100}, random_values(7700, 3)), dtable(DType::f32, {4, 1100}, Values(4400));
  embedding_backward(exec, ids, dy, dtable);
  CHECK(dtable.get() == reference::embedding_backward(tokens, dy.values(), 1100, 4));
}

TEST_CASE("the double reference of embedding has the gradient that finite differences give") {
  const std::vector<int> ids{2, 0, 2, 1, 2};
  const Values table = random_values(3 * 4, 1), dy = random_values(5 * 4, 2);
  check_gradient([&](const Values& v) { return dot(reference::embedding(ids, v, 4), dy); }, table,
                 reference::embedding_backward(ids, dy, 4, 3));
}

TEST_CASE("embedding refuses what does not fit") {
  using Catch::Matchers::ContainsSubstring;
  const Exec exec;
  const Stored ids({2}, {0, 0}), table(DType::f32, {4, 3}), y(DType::f32, {2, 4}), bad({1}, {0});
  CHECK_THROWS_WITH(embedding_forward(exec, ids, table, y, bad), ContainsSubstring("y must be float32 [2, 3]"));
  CHECK_THROWS_WITH(embedding_forward(exec, ids, Stored(DType::bf16, {4, 3}), y, bad),
                    ContainsSubstring("table must be 12 contiguous elements of float32"));
}
