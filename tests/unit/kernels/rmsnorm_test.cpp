#include "kernels/rmsnorm.hpp"

#include "reference/rmsnorm.hpp"
#include "support/kernel_case.hpp"

#include <catch2/generators/catch_generators.hpp>
#include <catch2/matchers/catch_matchers_string.hpp>

namespace {

using namespace kvant;
using namespace kvant::test;

constexpr float eps = 1e-6f;

struct Case {
  long rows, d, padding;
};

Case next_case() {
  return GENERATE(Case{1, 1, 0}, Case{3, 15, 0}, Case{33, 16, 3}, Case{5, 17, 0}, Case{65, 64, 0}, Case{7, 100, 28},
                  Case{2, 1027, 1});
}

}  // namespace

TEST_CASE("rmsnorm forward agrees with double precision") {
  const DType dtype = GENERATE(DType::f32, DType::bf16);
  const Case c = next_case();
  const Exec exec;
  const Stored x(dtype, {c.rows, c.d}, random_values(static_cast<std::size_t>(c.rows * c.d), 1, 3.0), c.padding);
  const Stored scale(DType::f32, {c.d}, random_values(static_cast<std::size_t>(c.d), 2));
  const Stored y(dtype, {c.rows, c.d}, c.padding), rstd(DType::f32, {c.rows}), absmax(DType::f32, {c.rows});
  rmsnorm_forward(exec, x, scale, eps, y, rstd, absmax);
  const auto expected = reference::rmsnorm(x.values(), scale.values(), eps);
  check_close(y.get(), expected.y, unit(dtype, 3), 1e-9);  // x_, the scale, their product
  check_close(rstd.get(), expected.rstd, 1e-6, 0.0);
  CHECK(y.padding_untouched());
  const Values stored = y.get(), largest = absmax.get();
  for (long t = 0; t < c.rows; ++t) {
    double m = 0.0;
    for (long i = 0; i < c.d; ++i) m = std::max(m, std::fabs(stored[static_cast<std::size_t>(t * c.d + i)]));
    CHECK(largest[static_cast<std::size_t>(t)] == m);
  }
}

TEST_CASE("rmsnorm rounds twice where activations are bfloat16") {
  // x * rstd = 1.00390625 * … is rounded before the scale is multiplied in: with scale 3 the two orders differ.
  const Exec exec;
  const Stored x(DType::bf16, {1, 2}, {1.0, 0.5}), scale(DType::f32, {2}, {3.0, 1.0 / 3.0});
  const Stored y(DType::bf16, {1, 2}), rstd(DType::f32, {1});
  rmsnorm_forward(exec, x, scale, eps, y, rstd);
  const auto r = static_cast<float>(rstd.get()[0]);
  const auto bf16 = [](float v) { return to_float(to_bf16(v)); };
  CHECK(y.get() == Values{bf16(bf16(1.0f * r) * 3.0f), bf16(bf16(0.5f * r) * bf16(1.0f / 3.0f))});
}

TEST_CASE("rmsnorm after an addition equals addition, then rmsnorm, bit for bit") {
  const DType dtype = GENERATE(DType::f32, DType::bf16);
  const Case c = next_case();
  const Exec exec;
  const auto n = static_cast<std::size_t>(c.rows * c.d);
  const Stored a(dtype, {c.rows, c.d}, random_values(n, 3)), b(dtype, {c.rows, c.d}, random_values(n, 4), c.padding);
  const Stored scale(DType::f32, {c.d}, random_values(static_cast<std::size_t>(c.d), 5));
  const Stored sum(dtype, {c.rows, c.d}), y(dtype, {c.rows, c.d}), rstd(DType::f32, {c.rows}),
      absmax(DType::f32, {c.rows});
  add_rmsnorm_forward(exec, a, b, sum, scale, eps, y, rstd, absmax);
  Values expected_sum(n);
  for (std::size_t i = 0; i < n; ++i) expected_sum[i] = a.values()[i] + b.values()[i];
  const Stored rounded(dtype, {c.rows, c.d}, expected_sum);
  CHECK(sum.get() == rounded.values());
  const Stored y2(dtype, {c.rows, c.d}), rstd2(DType::f32, {c.rows}), absmax2(DType::f32, {c.rows});
  rmsnorm_forward(exec, sum, scale, eps, y2, rstd2, absmax2);
  CHECK(y.bytes() == y2.bytes());
  CHECK(rstd.bytes() == rstd2.bytes());
  CHECK(absmax.bytes() == absmax2.bytes());
  add_rmsnorm_forward(exec, a, b, a, scale, eps, y2, rstd2);  // in place
  CHECK(a.get() == sum.get());
  CHECK(y.bytes() == y2.bytes());
}

TEST_CASE("rmsnorm backward agrees with double precision") {
  const DType dtype = GENERATE(DType::f32, DType::bf16);
  const Write mode = GENERATE(Write::overwrite, Write::accumulate);
  const Case c = next_case();
  const Exec exec;
  const auto n = static_cast<std::size_t>(c.rows * c.d);
  const Stored x(dtype, {c.rows, c.d}, random_values(n, 6, 2.0), c.padding),
      scale(DType::f32, {c.d}, random_values(static_cast<std::size_t>(c.d), 7));
  const Stored dy(dtype, {c.rows, c.d}, random_values(n, 8));
  const Stored dx(dtype, {c.rows, c.d}, random_values(n, 9), c.padding);
  const Stored dscale(DType::f32, {c.d}, random_values(static_cast<std::size_t>(c.d), 10));
  const Stored y(dtype, {c.rows, c.d}), rstd(DType::f32, {c.rows});
  rmsnorm_forward(exec, x, scale, eps, y, rstd);
  Arena workspace("test");
  rmsnorm_backward(exec, x, scale, rstd, dy, dx, mode, dscale, workspace);
  auto expected = reference::rmsnorm_backward(x.values(), scale.values(), eps, dy.values());
  double largest_rstd = 0.0;
  for (const double r : rstd.get()) largest_rstd = std::max(largest_rstd, r);
  if (mode == Write::accumulate)
    for (std::size_t i = 0; i < n; ++i) expected.dx[i] += dx.values()[i];
  for (std::size_t i = 0; i < expected.dscale.size(); ++i) expected.dscale[i] += dscale.values()[i];
  check_close(dx.get(), expected.dx, unit(dtype), (dtype == DType::bf16 ? 4e-3 : 2e-6) * largest_rstd);
  check_close(dscale.get(), expected.dscale, 1e-5, 1e-6 * static_cast<double>(c.rows));
  CHECK(dx.padding_untouched());
  CHECK(workspace.used() == 0);
}

TEST_CASE("rmsnorm: the gradient may replace dy") {
  const Exec exec;
  const Stored x(DType::f32, {9, 37}, random_values(9 * 37, 1)), scale(DType::f32, {37}, random_values(37, 2)),
      dy(DType::f32, {9, 37}, random_values(9 * 37, 3));
  const Stored y(DType::f32, {9, 37}), rstd(DType::f32, {9}), dx(DType::f32, {9, 37}), s1(DType::f32, {37}, Values(37)),
      s2(DType::f32, {37}, Values(37));
  Arena workspace("test");
  rmsnorm_forward(exec, x, scale, eps, y, rstd);
  rmsnorm_backward(exec, x, scale, rstd, dy, dx, Write::overwrite, s1, workspace);
  rmsnorm_backward(exec, x, scale, rstd, dy, dy, Write::overwrite, s2, workspace);
  CHECK(dx.bytes() == dy.bytes());
  CHECK(s1.bytes() == s2.bytes());
}

TEST_CASE("rmsnorm: a planted outlier is found at every position, and a NaN too") {
  const DType dtype = GENERATE(DType::f32, DType::bf16);
  const long d = GENERATE(1, 16, 31, 48, 77);
  const double outlier = GENERATE(1e4, -1e4);
  const Exec exec;
  const Stored scale(DType::f32, {d}, Values(static_cast<std::size_t>(d), 1.0));
  for (const std::size_t at : outlier_positions(static_cast<std::size_t>(d))) {
    Values values = random_values(static_cast<std::size_t>(3 * d), 11, 0.1);
    values[static_cast<std::size_t>(d) + at] = outlier;
    const Stored x(dtype, {3, d}, values), y(dtype, {3, d}), rstd(DType::f32, {3}), absmax(DType::f32, {3});
    rmsnorm_forward(exec, x, scale, eps, y, rstd, absmax);
    CHECK(absmax.get()[1] == std::fabs(y.get()[static_cast<std::size_t>(d) + at]));
    const Stored bad_scale(DType::f32, {d}, [&] {
      Values s(static_cast<std::size_t>(d), 1.0);
      s[at] = std::nan("");
      return s;
    }());
    rmsnorm_forward(exec, x, bad_scale, eps, y, rstd, absmax);
    for (const double m : absmax.get()) CHECK(std::isnan(m));
  }
}

TEST_CASE("rmsnorm of zeros is zero and its gradient finite") {
  const DType dtype = GENERATE(DType::f32, DType::bf16);
  const Exec exec;
  const Stored x(dtype, {2, 19}, Values(38)), scale(DType::f32, {19}, Values(19, 1.0)),
      dy(dtype, {2, 19}, random_values(38, 1)), dx(dtype, {2, 19});
  const Stored y(dtype, {2, 19}), rstd(DType::f32, {2}), absmax(DType::f32, {2}), dscale(DType::f32, {19}, Values(19));
  Arena workspace("test");
  rmsnorm_forward(exec, x, scale, eps, y, rstd, absmax);
  CHECK(y.get() == Values(38));
  CHECK(absmax.get() == Values(2));
  rmsnorm_backward(exec, x, scale, rstd, dy, dx, Write::overwrite, dscale, workspace);
  check_close(dx.get(), reference::rmsnorm_backward(x.values(), scale.values(), eps, dy.values()).dx, unit(dtype),
              1e-6);
  CHECK(dscale.get() == Values(19));
}

TEST_CASE("the double reference of rmsnorm has the gradient that finite differences give") {
  const Values x = random_values(3 * 7, 1), scale = random_values(7, 2), dy = random_values(3 * 7, 3);
  const auto g = reference::rmsnorm_backward(x, scale, 1e-3, dy);
  check_gradient([&](const Values& v) { return dot(reference::rmsnorm(v, scale, 1e-3).y, dy); }, x, g.dx);
  check_gradient([&](const Values& v) { return dot(reference::rmsnorm(x, v, 1e-3).y, dy); }, scale, g.dscale);
}

TEST_CASE("rmsnorm refuses shapes and types that do not fit") {
  using Catch::Matchers::ContainsSubstring;
  const Exec exec;
  const Stored x(DType::f32, {2, 4}), y(DType::f32, {2, 4}), narrow(DType::f32, {2, 3}), half(DType::bf16, {2, 4}),
      scale(DType::f32, {4}), rstd(DType::f32, {2});
  CHECK_THROWS_WITH(rmsnorm_forward(exec, x, scale, eps, narrow, rstd),
                    ContainsSubstring("y must be float32 [2, 4]; it is float32 of shape [2, 3]"));
  CHECK_THROWS_WITH(rmsnorm_forward(exec, x, scale, eps, half, rstd), ContainsSubstring("bfloat16"));
  CHECK_THROWS_WITH(rmsnorm_forward(exec, x, rstd, eps, y, rstd),
                    ContainsSubstring("scale must be 4 contiguous elements of float32"));
  CHECK_THROWS_WITH(rmsnorm_forward(exec, Stored(DType::i32, {2, 4}), scale, eps, Stored(DType::i32, {2, 4}), rstd),
                    ContainsSubstring("takes float32 and bfloat16"));
  TensorView turned = make_view(x.view().data, DType::f32, {4, 2});
  turned.stride = {1, 4};
  CHECK_THROWS_WITH(rmsnorm_forward(exec, turned, scale, eps, y, rstd), ContainsSubstring("adjacent columns"));
}
