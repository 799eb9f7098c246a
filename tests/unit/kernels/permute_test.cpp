#include "kernels/permute.hpp"

#include "reference/permute.hpp"
#include "support/kernel_case.hpp"

#include <catch2/generators/catch_generators.hpp>
#include <catch2/matchers/catch_matchers_string.hpp>

namespace {

using namespace kvant;
using namespace kvant::test;

struct Case {
  long tokens, k, d;
  int experts, used;  ///< tokens go to the first `used` experts: the rest stay empty
};

Case next_case() {
  return GENERATE(Case{1, 1, 1, 1, 1}, Case{5, 2, 17, 4, 4}, Case{33, 3, 16, 8, 2}, Case{64, 8, 31, 16, 16},
                  Case{2100, 2, 5, 7, 7}, Case{9, 2, 1030, 300, 300});
}

/// A plan on the device and its reference.
struct Plan {
  Stored index, offsets, row_of_slot, slot_of_row;
  reference::RoutePlan expected;

  Plan(const Exec& exec, const Case& c)
      : index({c.tokens, c.k}, random_ints(static_cast<std::size_t>(c.tokens * c.k), 1, c.used)),
        offsets(DType::i32, {c.experts + 1}),
        row_of_slot(DType::i32, {c.tokens * c.k}),
        slot_of_row(DType::i32, {c.tokens * c.k}),
        expected(reference::route_plan(index.ints(), c.experts)) {
    Arena workspace("test");
    route_plan(exec, index, c.experts, offsets, row_of_slot, slot_of_row, workspace);
    REQUIRE(workspace.used() == 0);
  }
};

}  // namespace

TEST_CASE("route_plan is a stable sort, with empty experts") {
  const Case c = next_case();
  const Exec exec;
  const Plan plan(exec, c);
  CHECK(plan.offsets.ints() == plan.expected.offsets);
  CHECK(plan.row_of_slot.ints() == plan.expected.row_of_slot);
  CHECK(plan.slot_of_row.ints() == plan.expected.slot_of_row);
}

TEST_CASE("route_plan with every token at one expert") {
  const Exec exec;
  const Stored index({6, 1}, std::vector<int>(6, 3)), offsets(DType::i32, {6}), rows(DType::i32, {6}),
      slots(DType::i32, {6});
  Arena workspace("test");
  route_plan(exec, index, 5, offsets, rows, slots, workspace);
  CHECK(offsets.ints() == std::vector<int>{0, 0, 0, 0, 6, 6});
  CHECK(rows.ints() == std::vector<int>{0, 1, 2, 3, 4, 5});
}

TEST_CASE("permute forward copies rows bit for bit, backward sums them in order") {
  const DType dtype = GENERATE(DType::f32, DType::bf16);
  const Write mode = GENERATE(Write::overwrite, Write::accumulate);
  const Case c = next_case();
  const Exec exec;
  const Plan plan(exec, c);
  const auto d = static_cast<std::size_t>(c.d), k = static_cast<std::size_t>(c.k),
             rows = static_cast<std::size_t>(c.tokens * c.k);
  const Stored x(dtype, {c.tokens, c.d}, random_values(static_cast<std::size_t>(c.tokens) * d, 2), 3),
      xs(dtype, {c.tokens * c.k, c.d});
  permute_forward(exec, x, plan.slot_of_row, c.k, xs);
  CHECK(xs.get() == reference::permute(x.values(), d, plan.expected.slot_of_row, k));

  const Stored dxs(dtype, {c.tokens * c.k, c.d}, random_values(rows * d, 3));
  const Stored dx(dtype, {c.tokens, c.d}, random_values(static_cast<std::size_t>(c.tokens) * d, 4), 5);
  permute_backward(exec, dxs, plan.row_of_slot, c.k, dx, mode);
  Values expected = reference::combine(dxs.values(), d, plan.expected.row_of_slot, k, Values(rows, 1.0));
  if (mode == Write::accumulate)
    for (std::size_t i = 0; i < expected.size(); ++i) expected[i] += dx.values()[i];
  check_close(dx.get(), expected, unit(dtype), 1e-6);
  CHECK(dx.padding_untouched());
}

TEST_CASE("a vector of row maxima is permuted as a column") {
  const Exec exec;
  const Plan plan(exec, {5, 2, 17, 4, 4});
  const Stored maxima(DType::f32, {5, 1}, random_values(5, 5)), permuted(DType::f32, {10, 1});
  permute_forward(exec, maxima, plan.slot_of_row, 2, permuted);
  CHECK(permuted.get() == reference::permute(maxima.values(), 1, plan.expected.slot_of_row, 2));
}

TEST_CASE("combine forward and backward agree with double precision") {
  const DType dtype = GENERATE(DType::f32, DType::bf16);
  const bool with_base = GENERATE(false, true);
  const Case c = next_case();
  const Exec exec;
  const Plan plan(exec, c);
  const auto d = static_cast<std::size_t>(c.d), k = static_cast<std::size_t>(c.k),
             rows = static_cast<std::size_t>(c.tokens * c.k);
  const Stored ys(dtype, {c.tokens * c.k, c.d}, random_values(rows * d, 6)),
      weight(DType::f32, {c.tokens, c.k}, random_values(rows, 7));
  const Stored base(dtype, {c.tokens, c.d}, random_values(static_cast<std::size_t>(c.tokens) * d, 8), 2),
      y(dtype, {c.tokens, c.d}, 1);
  combine_forward(exec, ys, plan.row_of_slot, weight, with_base ? base.view() : TensorView{}, y);
  Values expected = reference::combine(ys.values(), d, plan.expected.row_of_slot, k, weight.values());
  if (with_base)
    for (std::size_t i = 0; i < expected.size(); ++i) expected[i] += base.values()[i];
  check_close(y.get(), expected, unit(dtype), 2e-6);
  CHECK(y.padding_untouched());
  if (with_base) {
    combine_forward(exec, ys, plan.row_of_slot, weight, base, base);  // in place
    CHECK(base.get() == y.get());
  }

  const Stored dy(dtype, {c.tokens, c.d}, random_values(static_cast<std::size_t>(c.tokens) * d, 9)),
      dys(dtype, {c.tokens * c.k, c.d}), dweight(DType::f32, {c.tokens, c.k});
  combine_backward(exec, dy, ys, plan.row_of_slot, weight, dys, dweight);
  const auto g =
      reference::combine_backward(dy.values(), ys.values(), d, plan.expected.row_of_slot, k, weight.values());
  check_close(dys.get(), g.dys, unit(dtype), 1e-9);
  check_close(dweight.get(), g.dweight, 1e-5, 1e-5);
  const Stored dweight2(DType::f32, {c.tokens, c.k});
  combine_backward(exec, dy, ys, plan.row_of_slot, weight, ys, dweight2);  // in place
  CHECK(ys.bytes() == dys.bytes());
  CHECK(dweight.bytes() == dweight2.bytes());
}

TEST_CASE("the double reference of combine has the gradient that finite differences give") {
  const std::vector<int> index = random_ints(10, 1, 3);
  const auto plan = reference::route_plan(index, 3);
  const Values ys = random_values(10 * 4, 2), weight = random_values(10, 3), dy = random_values(5 * 4, 4);
  const auto g = reference::combine_backward(dy, ys, 4, plan.row_of_slot, 2, weight);
  check_gradient([&](const Values& v) { return dot(reference::combine(v, 4, plan.row_of_slot, 2, weight), dy); }, ys,
                 g.dys);
  check_gradient([&](const Values& v) { return dot(reference::combine(ys, 4, plan.row_of_slot, 2, v), dy); }, weight,
                 g.dweight);
  // permute is linear: <permute(x), u> = <x, permute_backward(u)>
  const Values x = random_values(5 * 4, 5), u = random_values(10 * 4, 6);
  CHECK(std::fabs(dot(reference::permute(x, 4, plan.slot_of_row, 2), u) -
                  dot(x, reference::combine(u, 4, plan.row_of_slot, 2, Values(10, 1.0)))) < 1e-12);
}

TEST_CASE("permutation kernels refuse what does not fit") {
  using Catch::Matchers::ContainsSubstring;
  const Exec exec;
  Arena workspace("test");
  const Stored index({2, 2}, {0, 1, 1, 0}), offsets(DType::i32, {3}), rows(DType::i32, {4}), slots(DType::i32, {4});
  CHECK_THROWS_WITH(route_plan(exec, index, 5, offsets, rows, slots, workspace),
                    ContainsSubstring("offsets must be 6 contiguous elements of int32"));
  CHECK_THROWS_WITH(route_plan(exec, index, 0, offsets, rows, slots, workspace),
                    ContainsSubstring("at least one expert"));
  const Stored x(DType::f32, {2, 3}), xs(DType::f32, {3, 3});
  CHECK_THROWS_WITH(permute_forward(exec, x, slots, 2, xs), ContainsSubstring("xs must be float32 [4, 3]"));
}
