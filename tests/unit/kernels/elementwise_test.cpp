#include "kernels/elementwise.hpp"

#include "reference/elementwise.hpp"
#include "support/kernel_case.hpp"

#include <catch2/generators/catch_generators.hpp>
#include <catch2/matchers/catch_matchers_string.hpp>

namespace {

using namespace kvant;
using namespace kvant::test;

struct Case {
  long rows, cols, padding;
};

Case next_case() { return GENERATE(Case{1, 1, 0}, Case{3, 15, 1}, Case{7, 16, 0}, Case{2, 1025, 0}, Case{3, 1100, 7}); }

/// What storing in `dtype` makes of values.
Values stored_as(DType dtype, const Shape& shape, const Values& x) { return Stored(dtype, shape, x).values(); }

}  // namespace

TEST_CASE("add and accumulate round the float32 sum to the output's type, for every mixture of types") {
  const DType ta = GENERATE(DType::f32, DType::bf16), tb = GENERATE(DType::f32, DType::bf16),
              ty = GENERATE(DType::f32, DType::bf16);
  const Case c = next_case();
  const Exec exec;
  const Shape shape{c.rows, c.cols};
  const Stored a(ta, shape, random_values(count(shape), 1), c.padding), b(tb, shape, random_values(count(shape), 2));
  const Stored y(ty, shape, c.padding);
  add(exec, a, b, y);
  const Values expected = stored_as(ty, shape, reference::add(a.values(), b.values()));
  CHECK(y.get() == expected);
  CHECK(y.padding_untouched());
  accumulate(exec, b, a);
  CHECK(a.get() == stored_as(ta, shape, reference::add(a.values(), b.values())));
}

TEST_CASE("copy casts to nearest even and keeps strides") {
  const DType from = GENERATE(DType::f32, DType::bf16), to = GENERATE(DType::f32, DType::bf16);
  const Case c = next_case();
  const Exec exec;
  const Shape shape{c.rows, c.cols};
  Values values = random_values(count(shape), 3);
  values[0] = 1.0 + 0x1p-8;  // half way between two bfloat16: to even
  const Stored x(from, shape, values, c.padding), y(to, shape);
  copy(exec, x, y);
  CHECK(y.get() == stored_as(to, shape, x.values()));
  if (from == DType::f32 && to == DType::bf16) CHECK(y.get()[0] == 1.0);
  const Stored back(from, shape, c.padding);
  copy(exec, y, back);
  CHECK(back.get() == y.get());
  CHECK(back.padding_untouched());
}

TEST_CASE("fill and scale_inplace") {
  const DType dtype = GENERATE(DType::f32, DType::bf16);
  const Case c = next_case();
  const Exec exec;
  const Shape shape{c.rows, c.cols};
  const Stored y(dtype, shape, random_values(count(shape), 4), c.padding);
  scale_inplace(exec, y, 0.25f);
  CHECK(y.get() == reference::scaled(y.values(), 0.25));
  fill(exec, y, 1.5f);
  CHECK(y.get() == Values(count(shape), 1.5));
  CHECK(y.padding_untouched());
  const Stored ids(DType::i32, shape);
  fill(exec, ids, -3.0f);
  CHECK(ids.get() == Values(count(shape), -3.0));
}

TEST_CASE("elementwise kernels take tensors of any rank, and empty ones") {
  const Exec exec;
  const Stored a(DType::f32, {2, 3, 4, 5}, random_values(120, 5)), b(DType::bf16, {2, 3, 4, 5}, random_values(120, 6)),
      y(DType::f32, {2, 3, 4, 5});
  add(exec, a, b, y);
  CHECK(y.get() == stored_as(DType::f32, {120}, reference::add(a.values(), b.values())));
  const Stored none(DType::f32, {0, 3});
  fill(exec, none, 1.0f);
  copy(exec, none, none);
  CHECK(none.get().empty());
}

TEST_CASE("elementwise kernels refuse what does not fit") {
  using Catch::Matchers::ContainsSubstring;
  const Exec exec;
  const Stored a(DType::f32, {2, 3}), b(DType::f32, {3, 2}), ids(DType::i32, {2, 3});
  CHECK_THROWS_WITH(add(exec, a, b, a), ContainsSubstring("shapes [2, 3] and [3, 2]"));
  CHECK_THROWS_WITH(copy(exec, a, ids), ContainsSubstring("takes float32 and bfloat16"));
  CHECK_THROWS_WITH(fill(exec, ids, 0.5f), ContainsSubstring("0.5, which is not an integer"));
}
