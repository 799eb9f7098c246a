#include "kernels/cross_entropy.hpp"

#include "reference/cross_entropy.hpp"
#include "support/kernel_case.hpp"

#include <catch2/generators/catch_generators.hpp>
#include <catch2/matchers/catch_matchers_string.hpp>

#include <cmath>

namespace {

using namespace kvant;
using namespace kvant::test;

/// All results of a call, asked for.
struct Results {
  Stored loss, z_term, lse, argmax, row_max, bad;
  explicit Results(long rows)
      : loss(DType::f32, {rows}),
        z_term(DType::f32, {rows}),
        lse(DType::f32, {rows}),
        argmax(DType::i32, {rows}),
        row_max(DType::f32, {rows}),
        bad({1}, {0}) {}
  CrossEntropyResult views() const { return {loss, z_term, lse, argmax, row_max, bad}; }
};

struct Case {
  long rows, v, padding;
};

}  // namespace

TEST_CASE("cross entropy and its gradient agree with double precision") {
  const DType dtype = GENERATE(DType::f32, DType::bf16);
  const Case c =
      GENERATE(Case{3, 1, 0}, Case{5, 15, 2}, Case{7, 16, 0}, Case{4, 259, 0}, Case{3, 2049, 0}, Case{2, 5000, 8});
  const bool float_mask = GENERATE(false, true);
  const Exec exec;
  const auto rows = static_cast<std::size_t>(c.rows), v = static_cast<std::size_t>(c.v);
  const Stored logits(dtype, {c.rows, c.v}, random_values(rows * v, 1, 12.0), c.padding);
  const std::vector<int> targets = random_ints(rows, 2, static_cast<int>(c.v));
  Values mask(rows, 1.0);
  mask[1] = 0.0;
  if (float_mask) mask[0] = 0.25;
  const Stored target({c.rows}, targets), weight(float_mask ? DType::f32 : DType::i32, {c.rows}, mask);
  const Results r(c.rows);
  const CrossEntropyConfig config{.z_loss = 1e-2f, .grad_scale = 0.125f};
  cross_entropy(exec, logits, target, weight, config, r.views());
  const auto expected = reference::cross_entropy(logits.values(), targets, mask, config.z_loss, 0.125);
  check_close(r.loss.get(), expected.loss, 1e-6, 2e-6);
  check_close(r.z_term.get(), expected.z_term, 1e-6, 1e-7);
  check_close(r.lse.get(), expected.lse, 1e-6, 1e-6);
  CHECK(r.argmax.ints() == expected.argmax);
  CHECK(r.bad.ints() == std::vector<int>{0});
  for (std::size_t t = 0; t < rows; ++t)
    CHECK(r.row_max.get()[t] == logits.values()[t * v + static_cast<std::size_t>(expected.argmax[t])]);
  CHECK(logits.get() == logits.values());  // no gradient was asked for

  CrossEntropyConfig with_gradient = config;
  with_gradient.write_gradient = true;
  const Results r2(c.rows);
  cross_entropy(exec, logits, target, weight, with_gradient, r2.views());
  check_close(logits.get(), expected.dlogits, unit(dtype, dtype == DType::bf16 ? 1 : 4), 1e-8);
  CHECK(logits.padding_untouched());
  check_close(r2.loss.get(), r.loss.get(), 1e-6, 1e-6);

  CrossEntropyResult least;  // what is optional may be empty
  least.loss = r2.loss;
  least.bad_targets = r2.bad;
  cross_entropy(exec, Stored(dtype, {c.rows, c.v}, logits.values()), target, weight, config, least);
  CHECK(r2.loss.bytes() == r.loss.bytes());
}

TEST_CASE("cross entropy: a confident row keeps its digits") {
  const Exec exec;
  const Stored logits(DType::f32, {1, 3}, {1000.0, 985.0, 900.0}), target({1}, {0}), mask({1}, {1});
  const Results r(1);
  cross_entropy(exec, logits, target, mask, {.write_gradient = true}, r.views());
  check_close(r.loss.get(), {std::log1p(std::exp(-15.0))}, 2e-1,
              0.0);  // log of a float32 near 1: one digit is what there is
  check_close(logits.get(), {-std::exp(-15.0), std::exp(-15.0), std::exp(-100.0)}, 2e-1, 1e-12);
}

TEST_CASE("cross entropy: targets out of range are counted and not read; masked ones may be anything") {
  const DType dtype = GENERATE(DType::f32, DType::bf16);
  const Exec exec;
  const std::vector<int> targets{-1, 17, 3, -5, 2147483647, 16};
  const Values mask{1, 1, 1, 0, 1, 1};
  const Stored logits(dtype, {6, 17}, random_values(6 * 17, 1)), target({6}, targets), weight(DType::i32, {6}, mask);
  const Results r(6);
  cross_entropy(exec, logits, target, weight, {.z_loss = 1e-3f, .write_gradient = true}, r.views());
  CHECK(r.bad.ints() == std::vector<int>{3});
  const auto expected = reference::cross_entropy(logits.values(), targets, mask, 1e-3, 1.0);
  check_close(r.loss.get(), expected.loss, 1e-6, 1e-6);
  check_close(logits.get(), expected.dlogits, unit(dtype, 4), 1e-7);
}

TEST_CASE("cross entropy: a masked row has gradient zero whatever its logits") {
  const DType dtype = GENERATE(DType::f32, DType::bf16);
  const Exec exec;
  const Stored logits(dtype, {2, 3}, {std::nan(""), 0.0, 1.0, 3e38, -3e38, 0.0}), target({2}, {0, 0}),
      mask({2}, {0, 0});
  const Results r(2);
  cross_entropy(exec, logits, target, mask, {.z_loss = 1e-3f, .write_gradient = true}, r.views());
  CHECK(logits.get() == Values(6));
  CHECK(r.loss.get() == Values(2));
  CHECK(r.z_term.get() == Values(2));
  CHECK(std::isnan(r.row_max.get()[0]));
}

TEST_CASE("cross entropy: a NaN in a counted row reaches its loss") {
  const Exec exec;
  for (const std::size_t at : outlier_positions(35)) {
    Values values = random_values(70, 1);
    values[35 + at] = std::nan("");
    const Stored logits(DType::f32, {2, 35}, values), target({2}, {1, 1}), mask({2}, {1, 1});
    const Results r(2);
    cross_entropy(exec, logits, target, mask, {}, r.views());
    CHECK(std::isnan(r.loss.get()[1]));
    CHECK(std::isnan(r.row_max.get()[1]));
    CHECK(std::isfinite(r.loss.get()[0]));
  }
}

TEST_CASE("cross entropy: a planted outlier is found at every position, ties go to the first") {
  const DType dtype = GENERATE(DType::f32, DType::bf16);
  const long v = GENERATE(1, 16, 31, 2048, 2077);
  const double outlier = GENERATE(1e4, -1e4);
  const Exec exec;
  for (const std::size_t at : outlier_positions(static_cast<std::size_t>(v))) {
    Values values = random_values(static_cast<std::size_t>(v), 3);
    values[at] = outlier;
    const Stored logits(dtype, {1, v}, values), target({1}, {static_cast<int>(at)}), mask({1}, {1});
    const Results r(1);
    cross_entropy(exec, logits, target, mask, {}, r.views());
    const auto expected = reference::cross_entropy(logits.values(), {static_cast<int>(at)}, {1.0}, 0.0, 1.0);
    CHECK(r.argmax.ints() == expected.argmax);
    CHECK(r.row_max.get()[0] == logits.values()[static_cast<std::size_t>(expected.argmax[0])]);
    check_close(r.loss.get(), expected.loss, 1e-6, 1e-6);
  }
  const Stored equal(dtype, {1, v}, Values(static_cast<std::size_t>(v), 0.5)), target({1}, {0}), mask({1}, {1});
  const Results r(1);
  cross_entropy(exec, equal, target, mask, {}, r.views());
  CHECK(r.argmax.ints() == std::vector<int>{0});
}

TEST_CASE("the double reference of cross entropy has the gradient that finite differences give") {
  const Values logits = random_values(4 * 6, 1, 3.0), mask{1.0, 0.5, 0.0, 1.0};
  const std::vector<int> targets{0, 5, 2, 3};
  const auto g = reference::cross_entropy(logits, targets, mask, 0.01, 0.3);
  check_gradient(
      [&](const Values& l) {
        double total = 0.0;
        for (const double x : reference::cross_entropy(l, targets, mask, 0.01, 0.3).loss) total += 0.3 * x;
        return total;
      },
      logits, g.dlogits);
}

TEST_CASE("cross entropy refuses what does not fit") {
  using Catch::Matchers::ContainsSubstring;
  const Exec exec;
  const Stored logits(DType::f32, {2, 3}), target({2}, {0, 0}), mask({2}, {1, 1}), half(DType::bf16, {2});
  const Results r(2), one(1);
  CHECK_THROWS_WITH(cross_entropy(exec, logits, target, half, {}, r.views()),
                    ContainsSubstring("the mask is bfloat16; it must be int32 or float32"));
  CHECK_THROWS_WITH(cross_entropy(exec, logits, target, mask, {}, one.views()),
                    ContainsSubstring("loss must be 2 contiguous elements"));
  CHECK_THROWS_WITH(cross_entropy(exec, logits, Stored({1}, {0}), mask, {}, r.views()),
                    ContainsSubstring("targets must be 2"));
}
