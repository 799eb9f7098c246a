#include "kernels/gemm.hpp"

#include "base/kokkos.hpp"
#include "kernels/detail/element_gemm.hpp"
#include "kernels/detail/gemm_problem.hpp"
#include "kernels/isa/isa.hpp"
#include "support/gemm_case.hpp"

#include <catch2/catch_test_macros.hpp>
#include <catch2/matchers/catch_matchers_string.hpp>

using namespace kvant;
using namespace kvant::test;
using Catch::Matchers::ContainsSubstring;

namespace {

struct Problem {
  int64_t m, n, k;
  bool trans_a, trans_b, add;
  DType type_a = DType::f32, type_b = DType::f32, type_c = DType::f32;
  long padding = 0;

  reference::Product product() const {
    return {static_cast<std::size_t>(m), static_cast<std::size_t>(n), static_cast<std::size_t>(k), trans_a, trans_b};
  }
  Shape shape_a() const { return trans_a ? Shape{k, m} : Shape{m, k}; }
  Shape shape_b() const { return trans_b ? Shape{n, k} : Shape{k, n}; }
};

/// A problem of its own for every shape, so that a sweep over shapes meets every orientation, type and padding.
Problem vary(int64_t m, int64_t n, int64_t k) {
  const auto mix = static_cast<uint32_t>(m * 7 + n * 13 + k * 29);
  const Random4 r = philox(5, 0, mix);
  const auto pick = [&](uint32_t bit) { return (r.word[0] >> bit & 1u) != 0; };
  return {m, n, k, pick(0), pick(1), pick(2), pick(3) ? DType::bf16 : DType::f32, pick(4) ? DType::bf16 : DType::f32, DType::f32, pick(5) ? 3 : 0};
}

struct Run {
  Codes a, b;
  Values before;
  Arena workspace{"gemm test"};

  Run(const Problem& p, const Values& xa, const Values& xb)
      : a(p.type_a, p.shape_a(), xa, p.padding), b(p.type_b, p.shape_b(), xb, p.padding), before(random_integers(count({p.m, p.n}), 3)) {}

  Values operator()(const Problem& p, FloatGemm body) {
    Stored c(p.type_c, {p.m, p.n}, p.padding);
    if (p.add) c.put(before);
    gemm_by(body, Exec{}, p.trans_a, p.trans_b, a, b, c, p.add ? Write::accumulate : Write::overwrite, workspace);
    Kokkos::fence();
    CHECK(c.padding_untouched());
    CHECK(workspace.used() == 0);
    return c.get();
  }
};

const int64_t row_counts[] = {1, 2, 5, 6, 7, 11, 12, 13, 25, 66, 67};
const int64_t column_counts[] = {1, 7, 8, 9, 15, 16, 17, 31, 33, 48, 63, 64, 65, 129};
const int64_t depths[] = {0, 1, 3, 7, 8, 9, 16, 17, 31, 67, 255, 256, 257};

}  // namespace

TEST_CASE("gemm is exact on integers for every remainder, orientation, type, padding and body") {
  for (const int64_t m : row_counts)
    for (const int64_t n : column_counts)
      for (const int64_t k : depths) {
        const Problem p = vary(m, n, k);
        CAPTURE(m, n, k, p.trans_a, p.trans_b, p.add, p.padding, name_of(p.type_a), name_of(p.type_b));
        Run run(p, random_integers(count(p.shape_a()), 1), random_integers(count(p.shape_b()), 2));
        const Values want = expected(reference::gemm(p.product(), run.a.values(), run.b.values()), run.before, p.add);
        for (const Isa isa : isas_here()) {
          const IsaScope scope(isa);
          INFO("ISA " << name_of(isa));
          REQUIRE(run(p, FloatGemm::tiles) == want);
        }
        REQUIRE(run(p, FloatGemm::kokkos_kernels) == want);
      }
}

TEST_CASE("gemm agrees with double precision on real numbers, and bit by bit for every ISA and for the portable kernel") {
  for (const Problem& p : {Problem{67, 129, 700, false, false, false}, Problem{130, 65, 511, true, false, true}, Problem{500, 40, 300, false, true, false},
                           Problem{33, 300, 1025, true, true, true}}) {
    CAPTURE(p.m, p.n, p.k);
    Run run(p, random_values(count(p.shape_a()), 1), random_values(count(p.shape_b()), 2));
    const Values want = expected(reference::gemm(p.product(), run.a.values(), run.b.values()), run.before, p.add);
    const Values first = run(p, FloatGemm::tiles);
    check_close(first, want, 1e-6, 2e-7 * static_cast<double>(p.k));
    check_close(run(p, FloatGemm::kokkos_kernels), want, 1e-6, 2e-7 * static_cast<double>(p.k));
    for (const Isa isa : isas_here()) {
      const IsaScope scope(isa);
      INFO("ISA " << name_of(isa));
      CHECK(run(p, FloatGemm::tiles) == first);
    }
    Stored c(DType::f32, {p.m, p.n});
    if (p.add) c.put(run.before);
    detail::GemmProblem elements;
    elements.m = p.m, elements.n = p.n, elements.k = p.k;
    elements.a = {run.a.view().data, p.type_a, run.a.view().stride[0], p.trans_a, 0};
    elements.b = {run.b.view().data, p.type_b, run.b.view().stride[0], p.trans_b, 0};
    elements.c = {c.view().data, DType::f32, p.n, 0, p.add};
    detail::element_gemm(Exec{}, elements);
    Kokkos::fence();
    CHECK(c.get() == first);
  }
}

TEST_CASE("a row's product does not depend on the rows beside it") {
  const Problem all{300, 96, 520, false, false, false};
  Run run(all, random_values(count(all.shape_a()), 1), random_values(count(all.shape_b()), 2));
  const Values whole = run(all, FloatGemm::tiles);
  for (const int64_t first : {0, 7, 150}) {
    const int64_t rows = 41;
    Stored c(DType::f32, {rows, all.n});
    gemm_by(FloatGemm::tiles, Exec{}, false, false, run.a.view().slice_rows(first, rows), run.b, c, Write::overwrite, run.workspace);
    Kokkos::fence();
    CHECK(c.get() == reference::part(whole, static_cast<std::size_t>(first * all.n), static_cast<std::size_t>(rows * all.n)));
  }
}

TEST_CASE("a bf16 result is the f32 result rounded to nearest even, added before it is rounded") {
  for (const bool add : {false, true}) {
    Problem p{45, 70, 300, false, true, add, DType::bf16, DType::bf16};
    Run run(p, random_values(count(p.shape_a()), 1), random_values(count(p.shape_b()), 2));
    Problem plain = p;
    plain.add = false;
    const Values sums = run(plain, FloatGemm::tiles);
    p.type_c = DType::bf16;
    p.padding = 5;
    const Values got = run(p, FloatGemm::tiles);
    for (std::size_t i = 0; i < got.size(); ++i) {
      const auto v = static_cast<float>(sums[i]);
      REQUIRE(got[i] == to_float(to_bf16(add ? static_cast<float>(run.before[i]) + v : v)));
    }
  }
}

TEST_CASE("gemm sees leading axes as rows and does nothing where there is nothing") {
  Arena workspace("gemm test");
  const Stored a(DType::f32, {2, 3, 4}, random_integers(24, 1)), b(DType::f32, {4, 5}, random_integers(20, 2));
  const Stored c(DType::f32, {2, 3, 5});
  gemm(Exec{}, false, false, a, b, c, Write::overwrite, workspace);
  Kokkos::fence();
  CHECK(c.get() == reference::gemm({6, 5, 4}, a.values(), b.values()));
  const Stored none(DType::f32, {0, 4}), empty(DType::f32, {0, 5});
  gemm(Exec{}, false, false, none, b, empty, Write::overwrite, workspace);
  const Stored no_columns(DType::f32, {4, 0}), nothing(DType::f32, {6, 0});
  gemm(Exec{}, false, false, a, no_columns, nothing, Write::overwrite, workspace);
}

TEST_CASE("gemm refuses operands that do not fit, in a sentence") {
  Arena workspace("gemm test");
  const Stored a(DType::f32, {3, 4}), b(DType::f32, {4, 5}), c(DType::f32, {3, 5}), whole(DType::i32, {3, 4}), line(DType::f32, {4});
  CHECK_THROWS_WITH(gemm(Exec{}, true, false, a, b, c, Write::overwrite, workspace),
                    ContainsSubstring("a [3, 4] transposed and b [4, 5] do not make c [3, 5]"));
  CHECK_THROWS_WITH(gemm(Exec{}, false, false, whole, b, c, Write::overwrite, workspace), ContainsSubstring("a must be float32 or bfloat16; it is int32"));
  CHECK_THROWS_WITH(gemm(Exec{}, false, false, a, line, c, Write::overwrite, workspace), ContainsSubstring("b must have at least two axes"));
  TensorView sparse = a;
  sparse.stride[1] = 2;
  CHECK_THROWS_WITH(gemm(Exec{}, false, false, sparse, b, c, Write::overwrite, workspace), ContainsSubstring("last axis of a must be dense"));
  TensorView overlapping = c;
  overlapping.stride[0] = 2;
  CHECK_THROWS_WITH(gemm(Exec{}, false, false, a, b, overlapping, Write::overwrite, workspace), ContainsSubstring("rows of c overlap"));
}
