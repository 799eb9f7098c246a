#include "kernels/swiglu.hpp"

#include "reference/swiglu.hpp"
#include "support/kernel_case.hpp"

#include <catch2/generators/catch_generators.hpp>
#include <catch2/matchers/catch_matchers_string.hpp>

namespace {

using namespace kvant;
using namespace kvant::test;

struct Case {
  long rows, f, padding;
};

Case next_case() {
  return GENERATE(Case{1, 1, 0}, Case{3, 15, 0}, Case{33, 16, 16}, Case{5, 17, 2}, Case{3, 1027, 0}, Case{2, 2100, 4});
}

}  // namespace

TEST_CASE("swiglu forward agrees with double precision, with and without maxima") {
  const DType dtype = GENERATE(DType::f32, DType::bf16);
  const Case c = next_case();
  const Exec exec;
  const auto n = static_cast<std::size_t>(c.rows * c.f);
  const Stored a(dtype, {c.rows, c.f}, random_values(n, 1, 8.0), c.padding),
      b(dtype, {c.rows, c.f}, random_values(n, 2, 2.0), c.padding);
  const Stored y(dtype, {c.rows, c.f}, c.padding), y2(dtype, {c.rows, c.f}), absmax(DType::f32, {c.rows});
  swiglu_forward(exec, a, b, y);
  check_close(y.get(), reference::swiglu(a.values(), b.values()), unit(dtype), 1e-9);
  CHECK(y.padding_untouched());
  swiglu_forward(exec, a, b, y2, absmax);
  CHECK(y.get() == y2.get());
  const Values stored = y2.get();
  for (long r = 0; r < c.rows; ++r) {
    double m = 0.0;
    for (long i = 0; i < c.f; ++i) m = std::max(m, std::fabs(stored[static_cast<std::size_t>(r * c.f + i)]));
    CHECK(absmax.get()[static_cast<std::size_t>(r)] == m);
  }
  swiglu_forward(exec, a, b, a);  // in place
  CHECK(a.get() == y.get());
}

TEST_CASE("swiglu backward agrees with double precision, also in place") {
  const DType dtype = GENERATE(DType::f32, DType::bf16);
  const Case c = next_case();
  const Exec exec;
  const auto n = static_cast<std::size_t>(c.rows * c.f);
  const Stored a(dtype, {c.rows, c.f}, random_values(n, 3, 8.0), c.padding),
      b(dtype, {c.rows, c.f}, random_values(n, 4, 2.0), c.padding);
  const Stored dy(dtype, {c.rows, c.f}, random_values(n, 5)), da(dtype, {c.rows, c.f}),
      db(dtype, {c.rows, c.f}, c.padding);
  swiglu_backward(exec, a, b, dy, da, db);
  const auto g = reference::swiglu_backward(a.values(), b.values(), dy.values());
  check_close(da.get(), g.da, unit(dtype), 1e-6);
  check_close(db.get(), g.db, unit(dtype), 1e-9);
  CHECK(db.padding_untouched());
  swiglu_backward(exec, a, b, dy, a, b);
  CHECK(a.get() == da.get());
  CHECK(b.get() == db.get());
}

TEST_CASE("swiglu: extreme gates neither overflow nor lose their sign") {
  const Exec exec;
  const Stored a(DType::f32, {1, 6}, {-1000.0, -104.0, -88.0, 0.0, 88.0, 1e30}), b(DType::f32, {1, 6}, Values(6, 1.0)),
      dy(DType::f32, {1, 6}, Values(6, 1.0));
  const Stored y(DType::f32, {1, 6}), da(DType::f32, {1, 6}), db(DType::f32, {1, 6});
  swiglu_forward(exec, a, b, y);
  check_close(y.get(), {0.0, 0.0, -88.0 * std::exp(-88.0), 0.0, 88.0, 1e30}, 1e-6, 1e-43);
  swiglu_backward(exec, a, b, dy, da, db);
  check_close(da.get(), {0.0, 0.0, -87.0 * std::exp(-88.0), 0.5, 1.0, 1.0}, 1e-6, 1e-42);
}

TEST_CASE("swiglu: a planted outlier is found at every position, and a NaN too") {
  const DType dtype = GENERATE(DType::f32, DType::bf16);
  const long f = GENERATE(1, 16, 31, 48, 77);
  const double outlier = GENERATE(1e4, -1e4);
  const Exec exec;
  const auto n = static_cast<std::size_t>(2 * f);
  for (const std::size_t at : outlier_positions(static_cast<std::size_t>(f))) {
    Values b = random_values(n, 6);
    b[static_cast<std::size_t>(f) + at] = outlier;
    const Stored gate(dtype, {2, f}, Values(n, 2.0)), up(dtype, {2, f}, b), y(dtype, {2, f}), absmax(DType::f32, {2});
    swiglu_forward(exec, gate, up, y, absmax);
    CHECK(absmax.get()[1] == std::fabs(y.get()[static_cast<std::size_t>(f) + at]));
    CHECK(absmax.get()[1] > 1e4);
    CHECK(absmax.get()[0] < 2.0);
    b[static_cast<std::size_t>(f) + at] = std::nan("");
    swiglu_forward(exec, gate, Stored(dtype, {2, f}, b), y, absmax);
    CHECK(std::isnan(absmax.get()[1]));
    CHECK_FALSE(std::isnan(absmax.get()[0]));
  }
}

TEST_CASE("the double reference of swiglu has the gradient that finite differences give") {
  const Values a = random_values(20, 1, 3.0), b = random_values(20, 2), dy = random_values(20, 3);
  const auto g = reference::swiglu_backward(a, b, dy);
  check_gradient([&](const Values& v) { return dot(reference::swiglu(v, b), dy); }, a, g.da);
  check_gradient([&](const Values& v) { return dot(reference::swiglu(a, v), dy); }, b, g.db);
}

TEST_CASE("swiglu refuses operands of different shapes and types") {
  using Catch::Matchers::ContainsSubstring;
  const Exec exec;
  const Stored a(DType::f32, {2, 4}), b(DType::f32, {4, 2}), half(DType::bf16, {2, 4});
  CHECK_THROWS_WITH(swiglu_forward(exec, a, b, a), ContainsSubstring("b must be float32 [2, 4]"));
  CHECK_THROWS_WITH(swiglu_backward(exec, a, a, half, a, a),
                    ContainsSubstring("dy must be float32 [2, 4]; it is bfloat16"));
}
