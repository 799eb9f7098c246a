#include "support/attention_case.hpp"
#include "support/threads.hpp"

#include <catch2/catch_test_macros.hpp>
#include <catch2/generators/catch_generators.hpp>

using namespace kvant;
using kvant::test::AttentionCase;
using kvant::test::AttentionResult;
using kvant::test::can_choose_threads;
using kvant::test::exec_with_threads;

// One head on two threads takes the cut by queries and keys, on one thread the cut by heads: they must agree too.
TEST_CASE("attention gives the same bits on one and on two threads") {
  const DType dtype = GENERATE(DType::f32, DType::bf16);
  const int64_t heads = GENERATE(1, 3, 4), kv_heads = GENERATE(1, 3);
  if (heads % kv_heads != 0) return;
  CAPTURE(name_of(dtype), heads, kv_heads);
  AttentionCase c(dtype, {1, heads, kv_heads, 333, 24, 16});
  for (int64_t i = 0; i < 333; ++i) c.input.segment.push_back(i < 100 ? 1 : i < 310 ? 2 : 0);
  Arena workspace("attention test");
  if constexpr (can_choose_threads) {
    const Exec all, single = exec_with_threads(1);
    REQUIRE(all.space.concurrency() == 2);
    REQUIRE(single.space.concurrency() == 1);
    const AttentionResult one = c.run(single, workspace), two = c.run(all, workspace);
    CHECK(one.out == two.out);
    CHECK(one.lse == two.lse);
    CHECK(one.dq == two.dq);
    CHECK(one.dk == two.dk);
    CHECK(one.dv == two.dv);
  } else {
    SKIP("the number of threads is not a choice on this backend");
  }
}
