#include "kernels/adamw.hpp"

#include "reference/adamw.hpp"
#include "support/kernel_case.hpp"

#include <catch2/generators/catch_generators.hpp>
#include <catch2/matchers/catch_matchers_string.hpp>

namespace {

using namespace kvant;
using namespace kvant::test;

AdamwHyper hyper_at(const reference::AdamwSettings& s, int t) {
  const auto f = [](double x) { return static_cast<float>(x); };
  return {f(s.lr),
          f(s.b1),
          f(s.b2),
          f(s.eps),
          f(s.eps_root),
          f(s.weight_decay),
          f(1.0 - std::pow(s.b1, t)),
          f(1.0 - std::pow(s.b2, t))};
}

}  // namespace

TEST_CASE("adamw follows double precision over several steps") {
  const long n = GENERATE(1, 15, 16, 1029, 2500);
  const bool clipped = GENERATE(false, true);
  const double eps_root = GENERATE(0.0, 1e-6);
  const Exec exec;
  const auto size = static_cast<std::size_t>(n);
  const reference::AdamwSettings s{1e-2, 0.9, 0.95, 1e-8, eps_root, 0.1};
  const Stored p(DType::f32, {n}, random_values(size, 1)), m(DType::f32, {n}, Values(size)),
      v(DType::f32, {n}, Values(size));
  Stored g(DType::f32, {n});
  const Stored factor(DType::f32, {1}, Values{0.25});
  reference::AdamwState expected{p.values(), Values(size), Values(size)};
  for (int t = 1; t <= 5; ++t) {
    g.put(random_values(size, 10 + static_cast<uint64_t>(t)));
    const bool clear = t % 2 == 0;
    adamw_step(exec, p, g, m, v, hyper_at(s, t), clipped ? factor.view() : TensorView{}, clear);
    reference::adamw(expected, g.values(), s, t, clipped ? 0.25 : 1.0);
    CHECK(g.get() == (clear ? Values(size) : g.values()));
  }
  check_close(m.get(), expected.m, 1e-6, 1e-7);
  check_close(v.get(), expected.v, 2e-6, 1e-8);
  check_close(p.get(), expected.p, 1e-6, 5e-6);  // 5 steps of at most lr each, each to 1e-5 of itself
}

TEST_CASE("adamw: a parameter whose gradient has always been zero only decays") {
  const Exec exec;
  const Stored p(DType::f32, {20}, Values(20, 2.0)), g(DType::f32, {20}, Values(20)), m(DType::f32, {20}, Values(20)),
      v(DType::f32, {20}, Values(20));
  adamw_step(exec, p, g, m, v, hyper_at({0.5, 0.9, 0.95, 1e-8, 0.0, 0.1}, 1), {}, false);
  check_close(p.get(), Values(20, 2.0 - 0.5 * 0.1 * 2.0), 1e-7, 0.0);
}

TEST_CASE("adamw refuses what does not fit") {
  using Catch::Matchers::ContainsSubstring;
  const Exec exec;
  const Stored p(DType::f32, {4}), half(DType::bf16, {4}), wide(DType::f32, {2, 2}, 3);
  AdamwHyper h;
  CHECK_THROWS_WITH(adamw_step(exec, p, half, p, p, h, {}, false),
                    ContainsSubstring("g must be 4 contiguous elements of float32"));
  CHECK_THROWS_WITH(adamw_step(exec, wide, p, p, p, h, {}, false), ContainsSubstring("p must be 4 contiguous"));
  CHECK_THROWS_WITH(adamw_step(exec, p, p, p, p, h, p, false), ContainsSubstring("grad_factor must be 1"));
  h.bias_correction2 = 0.0f;
  CHECK_THROWS_WITH(adamw_step(exec, p, p, p, p, h, {}, false), ContainsSubstring("bias corrections are 1 and 0"));
}
