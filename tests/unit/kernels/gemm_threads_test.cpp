#include "kernels/gemm.hpp"
#include "kernels/grouped_gemm.hpp"
#include "kernels/scaled_gemm.hpp"

#include "support/gemm_case.hpp"
#include "support/threads.hpp"

#include <catch2/catch_test_macros.hpp>
#include <catch2/generators/catch_generators.hpp>

#include <cstring>

using namespace kvant;
using namespace kvant::test;

TEST_CASE("gemm gives the same bits on one and on two threads") {
  const FloatGemm body = GENERATE(FloatGemm::tiles, FloatGemm::kokkos_kernels);
  const int64_t m = GENERATE(3, 67, 1200), n = GENERATE(65, 1100), k = GENERATE(300, 513);
  CAPTURE(describe(body), m, n, k);
  if constexpr (can_choose_threads) {
    const Exec all, single = exec_with_threads(1);
    REQUIRE(all.space.concurrency() == 2);
    const Codes a(DType::f32, {m, k}, random_values(count({m, k}), 1)), b(DType::f32, {k, n}, random_values(count({k, n}), 2));
    const Stored one(DType::f32, {m, n}), two(DType::f32, {m, n});
    Arena workspace("gemm test");
    gemm_by(body, single, false, false, a, b, one, Write::overwrite, workspace);
    gemm_by(body, all, false, false, a, b, two, Write::overwrite, workspace);
    CHECK(one.bytes() == two.bytes());
  } else {
    SKIP("the number of threads is not a choice on this backend");
  }
}

TEST_CASE("grouped products give the same bits on one and on two threads") {
  const int64_t k = 300, n = 130, rows = 700;
  const std::vector<int> offsets = GENERATE(std::vector<int>{0, 0, 500, 501, 640}, std::vector<int>{0, 700, 700, 700, 700});
  if constexpr (can_choose_threads) {
    const Exec all, single = exec_with_threads(1);
    const Codes a(DType::bf16, {rows, k}, random_values(count({rows, k}), 1)), b(DType::f32, {4, k, n}, random_values(count({4, k, n}), 2));
    const Codes dy(DType::f32, {rows, n}, random_values(count({rows, n}), 3));
    const Stored where({5}, offsets), one(DType::f32, {rows, n}), two(DType::f32, {rows, n}), dw_one(DType::bf16, {4, k, n}), dw_two(DType::bf16, {4, k, n});
    Arena workspace("gemm test");
    grouped_gemm(single, false, a, b, where, one, Write::overwrite, workspace);
    grouped_gemm(all, false, a, b, where, two, Write::overwrite, workspace);
    grouped_gemm_wgrad(single, a, dy, where, dw_one, Write::overwrite, workspace);
    grouped_gemm_wgrad(all, a, dy, where, dw_two, Write::overwrite, workspace);
    CHECK(one.bytes() == two.bytes());
    CHECK(dw_one.bytes() == dw_two.bytes());
  } else {
    SKIP("the number of threads is not a choice on this backend");
  }
}

TEST_CASE("scaled products give the same bits on one and on two threads, packed operands too") {
  const DType type = GENERATE(DType::i8, DType::e5m2);
  const int64_t k = 320, n = 530, rows = 700;  // k: no gaps between packed groups, which nobody would write
  if constexpr (can_choose_threads) {
    const Exec all, single = exec_with_threads(1);
    const Codes a(type, {rows, k}, random_integers(count({rows, k}), 1, 7)), b(type, {4, k, n}, random_integers(count({4, k, n}), 2, 7));
    const Stored scale(DType::f32, {rows}, random_values(static_cast<std::size_t>(rows), 3)), where({5}, {0, 0, 500, 501, 640});
    const Stored one(DType::f32, {rows, n}), two(DType::f32, {rows, n});
    Arena workspace("gemm test");
    PackedOperand first, second;
    for (PackedOperand* p : {&first, &second}) {
      p->bytes = packed_bytes(type, b.view().shape, false);
      p->data = workspace.allocate_bytes(p->bytes);
    }
    pack(single, b, false, first);
    pack(all, b, false, second);
    scaled_grouped_gemm(single, {a, false, scale, nullptr}, {b, false, {}, &first}, where, one, Write::overwrite, workspace);
    scaled_grouped_gemm(all, {a, false, scale, nullptr}, {b, false, {}, &second}, where, two, Write::overwrite, workspace);
    CHECK(first.bytes == second.bytes);
    CHECK(std::memcmp(first.data, second.data, first.bytes) == 0);
    CHECK(one.bytes() == two.bytes());
  } else {
    SKIP("the number of threads is not a choice on this backend");
  }
}
