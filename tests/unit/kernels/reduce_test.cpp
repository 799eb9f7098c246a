#include "kernels/reduce.hpp"

#include "reference/reduce.hpp"
#include "support/kernel_case.hpp"

#include <catch2/generators/catch_generators.hpp>
#include <catch2/matchers/catch_matchers_string.hpp>

#include <limits>

namespace {

using namespace kvant;
using namespace kvant::test;

constexpr long chunk = 8192;  // the kernel's: remainders around it

}  // namespace

TEST_CASE("sums and maxima agree with long double, contiguous and strided") {
  const DType dtype = GENERATE(DType::f32, DType::bf16);
  struct Case {
    long rows, cols, padding;
  };
  const Case c = GENERATE(Case{1, 1, 0}, Case{1, 15, 0}, Case{7, 33, 3}, Case{1, chunk, 0}, Case{2, chunk + 1, 5},
                          Case{5, 7001, 0});
  const Exec exec;
  Arena workspace("test");
  const Stored x(dtype, {c.rows, c.cols}, random_values(static_cast<std::size_t>(c.rows * c.cols), 1), c.padding),
      out(DType::f32, {1});
  sum(exec, x, out, workspace);
  check_close(out.get(), {reference::sum(x.values())}, 1e-7, 1e-12);
  sum_squares(exec, x, out, workspace);
  check_close(out.get(), {reference::sum_squares(x.values())}, 1e-7, 0.0);
  absmax(exec, x, out, workspace);
  CHECK(out.get() == Values{reference::absmax(x.values())});
  maximum(exec, x, out, workspace);
  CHECK(out.get() == Values{reference::maximum(x.values())});
  CHECK(workspace.used() == 0);
}

TEST_CASE("a sum does not lose small terms beside a large one") {
  const Exec exec;
  Arena workspace("test");
  Values values(20001, 0x1p-20);
  values[0] = 4096.0;
  const Stored x(DType::f32, {20001}, values), out(DType::f32, {1});
  sum(exec, x, out, workspace);
  CHECK(out.get() == Values{static_cast<float>(4096.0 + 20000 * 0x1p-20)});
}

TEST_CASE("empty tensors reduce to the neutral element") {
  const Exec exec;
  Arena workspace("test");
  const Stored x(DType::f32, {0, 5}), out(DType::f32, {1}), count({1}, {3});
  sum(exec, x, out, workspace);
  CHECK(out.get() == Values{0.0});
  absmax(exec, x, out, workspace);
  CHECK(out.get() == Values{0.0});
  maximum(exec, x, out, workspace);
  CHECK(out.get() == Values{-std::numeric_limits<double>::infinity()});
  count_nonfinite(exec, x, count);
  CHECK(count.ints() == std::vector<int>{3});
}

TEST_CASE("planted outliers, NaN and infinities are found at every position") {
  const DType dtype = GENERATE(DType::f32, DType::bf16);
  const long n = GENERATE(1L, 16L, 31L, 77L, chunk, chunk + 1, chunk + 33);
  const Exec exec;
  Arena workspace("test");
  std::vector<std::size_t> positions = outlier_positions(static_cast<std::size_t>(n));
  if (n > chunk) positions.push_back(static_cast<std::size_t>(chunk) - 1);
  const Values quiet = random_values(static_cast<std::size_t>(n), 1, 0.5);
  Stored x(dtype, {n}), count(DType::i32, {1});
  const Stored out(DType::f32, {1});
  for (const std::size_t at : positions) {
    const auto planted = [&](double value) -> const Stored& {
      Values v = quiet;
      v[at] = value;
      x.put(v);
      return x;
    };
    const double large = planted(1e4).values()[at];
    absmax(exec, x, out, workspace);
    CHECK(out.get() == Values{large});
    maximum(exec, x, out, workspace);
    CHECK(out.get() == Values{large});
    planted(-1e4);
    absmax(exec, x, out, workspace);
    CHECK(out.get() == Values{large});
    maximum(exec, x, out, workspace);
    CHECK(out.get() == Values{reference::maximum(x.values())});
    for (const double bad : {std::nan(""), -std::nan(""), HUGE_VAL, -HUGE_VAL}) {
      planted(bad);
      count.put({2.0});
      count_nonfinite(exec, x, count);
      CHECK(count.ints() == std::vector<int>{3});
      absmax(exec, x, out, workspace);
      CHECK((std::isnan(bad) ? std::isnan(out.get()[0]) : out.get()[0] == HUGE_VAL));
      maximum(exec, x, out, workspace);
      CHECK((std::isnan(bad) ? std::isnan(out.get()[0]) : out.get()[0] == reference::maximum(x.values())));
    }
  }
}

TEST_CASE("clip_factor") {
  const Exec exec;
  const Stored norm(DType::f32, {1}), factor(DType::f32, {1});
  const auto run = [&](double squares, float most) {
    clip_factor(exec, Stored(DType::f32, {1}, Values{squares}), most, norm, factor);
    return factor.get()[0];
  };
  CHECK(run(4.0, 1.0f) == 0.5);
  CHECK(norm.get()[0] == 2.0);
  CHECK(run(0.25, 1.0f) == 1.0);
  CHECK(run(1e6, 0.0f) == 1.0);
  CHECK(run(0.0, 1.0f) == 1.0);
  CHECK(run(HUGE_VAL, 1.0f) == 0.0);
  CHECK(run(std::nan(""), 0.0f) == 0.0);
  CHECK(std::isnan(norm.get()[0]));
}

TEST_CASE("reductions refuse what does not fit") {
  using Catch::Matchers::ContainsSubstring;
  const Exec exec;
  Arena workspace("test");
  const Stored x(DType::f32, {2, 3}), ids(DType::i32, {2}), out(DType::f32, {1});
  CHECK_THROWS_WITH(sum(exec, x, x, workspace), ContainsSubstring("out must be 1 contiguous elements of float32"));
  CHECK_THROWS_WITH(absmax(exec, ids, out, workspace), ContainsSubstring("takes float32 and bfloat16"));
  CHECK_THROWS_WITH(count_nonfinite(exec, x, out), ContainsSubstring("count must be 1 contiguous elements of int32"));
  CHECK_THROWS_WITH(clip_factor(exec, out, -1.0f, out, out), ContainsSubstring("largest norm is -1"));
}
