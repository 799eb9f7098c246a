#include "kernels/grouped_gemm.hpp"

#include "kernels/detail/element_gemm.hpp"
#include "kernels/detail/gemm_problem.hpp"
#include "support/gemm_case.hpp"

#include <catch2/catch_test_macros.hpp>
#include <catch2/generators/catch_generators.hpp>
#include <catch2/matchers/catch_matchers_string.hpp>

using namespace kvant;
using namespace kvant::test;
using Catch::Matchers::ContainsSubstring;

namespace {

struct Groups {
  const char* what;
  int64_t rows;
  std::vector<int> offsets;
};

const Groups group_cases[] = {
    {"even", 48, {0, 12, 24, 36, 48}}, {"uneven", 67, {0, 1, 38, 40, 67}},    {"empty groups", 40, {0, 0, 17, 17, 40}}, {"one has all", 33, {0, 0, 33, 33, 33}},
    {"rows to spare", 50, {0, 10, 10, 20, 31}}, {"nobody", 9, {0, 0, 0, 0, 0}}, {"no rows", 0, {0, 0, 0, 0, 0}},
};

detail::GemmProblem as_elements(const TensorView& a, const TensorView& b, const TensorView& c, const TensorView& offsets) {
  detail::GemmProblem p;
  p.grouping = detail::Grouping::rows;
  p.groups = b.shape[0];
  p.offsets = offsets.as<int32_t>();
  p.m = c.shape[0], p.n = c.shape[1], p.k = a.shape[1];
  p.a = {a.data, a.dtype, a.stride[0], false, 0};
  p.b = {b.data, b.dtype, b.stride[1], false, b.stride[0]};
  p.c = {c.data, c.dtype, c.stride[0], 0, false};
  return p;
}

}  // namespace

TEST_CASE("grouped products are exact on integers for every grouping, orientation, type and ISA") {
  const bool trans_b = GENERATE(false, true), add = GENERATE(false, true);
  const DType type = GENERATE(DType::f32, DType::bf16);
  const int64_t k = GENERATE(8, 67), n = GENERATE(1, 33);
  const long padding = GENERATE(0, 3);
  Arena workspace("gemm test");
  for (const Groups& g : group_cases)
    for (const Isa isa : isas_here()) {
      const IsaScope scope(isa);
      CAPTURE(g.what, name_of(isa), trans_b, add, name_of(type), k, n, padding);
      const Codes a(type, {g.rows, k}, random_integers(count({g.rows, k}), 1), padding);
      const Codes b(type, trans_b ? Shape{4, n, k} : Shape{4, k, n}, random_integers(count({4, k, n}), 2), padding);
      const Codes dy(type, {g.rows, n}, random_integers(count({g.rows, n}), 3), padding);
      const Stored offsets({5}, g.offsets);
      const Values before = random_integers(count({g.rows, n}), 4), before_dw = random_integers(count({4, k, n}), 5);
      Stored c(DType::f32, {g.rows, n}, padding), dw(DType::f32, {4, k, n}, padding);
      if (add) c.put(before), dw.put(before_dw);
      const Write mode = add ? Write::accumulate : Write::overwrite;
      grouped_gemm(Exec{}, trans_b, a, b, offsets, c, mode, workspace);
      grouped_gemm_wgrad(Exec{}, a, dy, offsets, dw, mode, workspace);
      Kokkos::fence();
      const auto uk = static_cast<std::size_t>(k), un = static_cast<std::size_t>(n);
      REQUIRE(c.get() == expected(reference::grouped_gemm(trans_b, uk, un, a.values(), b.values(), g.offsets), before, add));
      REQUIRE(dw.get() == expected(reference::grouped_gemm_wgrad(uk, un, a.values(), dy.values(), g.offsets), before_dw, add));
      CHECK(c.padding_untouched());
      CHECK(dw.padding_untouched());
      CHECK(workspace.used() == 0);
    }
}

TEST_CASE("grouped products agree with double precision on real numbers and with the portable kernel bit by bit") {
  const int64_t rows = 211, k = 300, n = 70;
  const std::vector<int> offsets{0, 90, 90, 200, 205};
  const Codes a(DType::bf16, {rows, k}, random_values(count({rows, k}), 1)), b(DType::f32, {4, k, n}, random_values(count({4, k, n}), 2));
  const Stored where({5}, offsets), c(DType::f32, {rows, n}), twin(DType::f32, {rows, n});
  Arena workspace("gemm test");
  grouped_gemm(Exec{}, false, a, b, where, c, Write::overwrite, workspace);
  detail::element_gemm(Exec{}, as_elements(a, b, twin, where));
  Kokkos::fence();
  check_close(c.get(), reference::grouped_gemm(false, 300, 70, a.values(), b.values(), offsets), 1e-6, 1e-5);
  CHECK(c.get() == twin.get());
}

TEST_CASE("grouped products refuse operands and offsets that do not fit, in a sentence") {
  Arena workspace("gemm test");
  const Stored a(DType::f32, {9, 4}), b(DType::f32, {2, 4, 5}), c(DType::f32, {9, 5}), dw(DType::f32, {2, 4, 5}), flat(DType::f32, {8, 5});
  const Stored offsets({3}, {0, 4, 9}), few({2}, {0, 9}), falling({3}, {0, 5, 4}), late({3}, {1, 5, 9}), many({3}, {0, 5, 10});
  const auto product = [&](const TensorView& w, const TensorView& o) { grouped_gemm(Exec{}, false, a, w, o, c, Write::overwrite, workspace); };
  CHECK_THROWS_WITH(product(flat, offsets), ContainsSubstring("b must have three axes"));
  CHECK_THROWS_WITH(product(b, few), ContainsSubstring("offsets of 2 groups must be 3 dense int32"));
  CHECK_THROWS_WITH(grouped_gemm(Exec{}, true, a, b, offsets, c, Write::overwrite, workspace), ContainsSubstring("do not make c [9, 5]"));
  CHECK_THROWS_WITH(grouped_gemm_wgrad(Exec{}, c, a, offsets, dw, Write::overwrite, workspace), ContainsSubstring("do not make dw [2, 4, 5]"));
  if constexpr (exec_is_host) {  // on a device nobody waits to look at them
    CHECK_THROWS_WITH(product(b, falling), ContainsSubstring("group 1 has rows 5 to 4"));
    CHECK_THROWS_WITH(product(b, late), ContainsSubstring("begin with 0; they begin with 1"));
    CHECK_THROWS_WITH(product(b, many), ContainsSubstring("at most the number of rows, 9"));
  }
}
