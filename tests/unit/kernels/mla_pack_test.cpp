#include "kernels/mla_pack.hpp"

#include "reference/mla_pack.hpp"
#include "support/kernel_case.hpp"

#include <catch2/generators/catch_generators.hpp>
#include <catch2/matchers/catch_matchers_string.hpp>

namespace {

using namespace kvant;
using namespace kvant::test;

MlaPack next_shape() {
  MlaPack m = GENERATE(MlaPack{1, 1, 1, 1, 2, 1}, MlaPack{2, 3, 4, 16, 8, 16}, MlaPack{1, 5, 3, 17, 6, 9},
                       MlaPack{3, 2, 2, 0, 64, 5});
  m.interleave = GENERATE(true, false);
  m.q_scale = 0.3f;
  m.rope_scale = 1.25f;
  return m;
}

/// Inputs of one problem; kv's rotated key lies in the last columns of a wider matrix.
struct Problem {
  MlaPack m;
  int64_t tokens = m.batch * m.sequence, qk = m.nope + m.rope, kv = m.nope + m.value;
  std::vector<int> positions;
  Values frequency;
  Stored position, freq;

  explicit Problem(const MlaPack& pack)
      : m(pack),
        positions(random_ints(static_cast<std::size_t>(tokens), 1, 163840)),
        frequency(reference::rope_frequencies(static_cast<int>(m.rope), 10000.0)),
        position({tokens}, positions),
        freq(DType::f32, {m.rope / 2}, frequency) {
    frequency = freq.values();
  }
};

std::size_t size(int64_t n) { return static_cast<std::size_t>(n); }

}  // namespace

TEST_CASE("mla_pack forward agrees with double precision up to position 163840") {
  const DType dtype = GENERATE(DType::f32, DType::bf16);
  const Problem p(next_shape());
  const MlaPack& m = p.m;
  const Exec exec;
  const Stored q_raw(dtype, {m.batch, m.sequence, m.heads, p.qk}, random_values(size(p.tokens * m.heads * p.qk), 2));
  const Stored kv_raw(dtype, {m.batch, m.sequence, m.heads, p.kv}, random_values(size(p.tokens * m.heads * p.kv), 3));
  const Stored k_rope(dtype, {p.tokens, m.rope}, random_values(size(p.tokens * m.rope), 4), 11);
  const Stored q(dtype, {m.batch, m.heads, m.sequence, p.qk}), k(dtype, {m.batch, m.heads, m.sequence, p.qk}),
      v(dtype, {m.batch, m.heads, m.sequence, m.value});
  mla_pack_forward(exec, m, q_raw, kv_raw, k_rope, p.position, p.freq, q, k, v);
  const auto expected =
      reference::mla_pack(m, q_raw.values(), kv_raw.values(), k_rope.values(), p.positions, p.frequency);
  check_close(q.get(), expected.q, unit(dtype), 2e-7);
  check_close(k.get(), expected.k, unit(dtype), 5e-7);
  CHECK(v.get() == expected.v);
}

TEST_CASE("mla_pack backward agrees with double precision") {
  const DType dtype = GENERATE(DType::f32, DType::bf16);
  const Problem p(next_shape());
  const MlaPack& m = p.m;
  const Exec exec;
  const Stored dq(dtype, {m.batch, m.heads, m.sequence, p.qk}, random_values(size(p.tokens * m.heads * p.qk), 5));
  const Stored dk(dtype, {m.batch, m.heads, m.sequence, p.qk}, random_values(size(p.tokens * m.heads * p.qk), 6));
  const Stored dv(dtype, {m.batch, m.heads, m.sequence, m.value}, random_values(size(p.tokens * m.heads * m.value), 7));
  const Stored dq_raw(dtype, {m.batch, m.sequence, m.heads, p.qk}),
      dkv_raw(dtype, {m.batch, m.sequence, m.heads, p.kv}), dk_rope(dtype, {p.tokens, m.rope}, 13);
  mla_pack_backward(exec, m, dq, dk, dv, p.position, p.freq, dq_raw, dkv_raw, dk_rope);
  const auto g = reference::mla_pack_backward(m, dq.values(), dk.values(), dv.values(), p.positions, p.frequency);
  check_close(dq_raw.get(), g.dq_raw, unit(dtype), 2e-7);
  CHECK(dkv_raw.get() == g.dkv_raw);
  check_close(dk_rope.get(), g.dk_rope_raw, unit(dtype), 1e-6);
  CHECK(dk_rope.padding_untouched());
}

TEST_CASE("the double reference of mla_pack has the gradient that finite differences give") {
  MlaPack m{2, 2, 2, 3, 4, 2, 0.7f, 1.1f, GENERATE(true, false)};
  const std::vector<int> positions{0, 1, 5, 2};
  const Values f = reference::rope_frequencies(4, 100.0);
  const Values q_raw = random_values(2 * 2 * 2 * 7, 1), kv_raw = random_values(2 * 2 * 2 * 5, 2),
               k_rope = random_values(4 * 4, 3);
  const Values dq = random_values(q_raw.size(), 4), dk = random_values(q_raw.size(), 5),
               dv = random_values(2 * 2 * 2 * 2, 6);
  const auto loss = [&](const Values& a, const Values& b, const Values& c) {
    const auto p = reference::mla_pack(m, a, b, c, positions, f);
    return dot(p.q, dq) + dot(p.k, dk) + dot(p.v, dv);
  };
  const auto g = reference::mla_pack_backward(m, dq, dk, dv, positions, f);
  check_gradient([&](const Values& x) { return loss(x, kv_raw, k_rope); }, q_raw, g.dq_raw);
  check_gradient([&](const Values& x) { return loss(q_raw, x, k_rope); }, kv_raw, g.dkv_raw);
  check_gradient([&](const Values& x) { return loss(q_raw, kv_raw, x); }, k_rope, g.dk_rope_raw);
}

TEST_CASE("mla_pack refuses what does not fit") {
  using Catch::Matchers::ContainsSubstring;
  const Exec exec;
  const MlaPack m{1, 2, 1, 2, 2, 2};
  const Stored q(DType::f32, {1, 2, 1, 4}), v(DType::f32, {1, 1, 2, 2}), k_rope(DType::f32, {2, 2}),
      position({2}, {0, 1}), freq(DType::f32, {1});
  CHECK_THROWS_WITH(mla_pack_forward(exec, m, q, q, k_rope, position, freq, q, v, v),
                    ContainsSubstring("k must be 8 contiguous elements"));
  CHECK_THROWS_WITH(mla_pack_forward(exec, m, q, q, v, position, Stored(DType::f32, {2}), q, q, v),
                    ContainsSubstring("frequency must be 1"));
  MlaPack odd = m;
  odd.rope = 3;
  CHECK_THROWS_WITH(mla_pack_forward(exec, odd, q, q, k_rope, position, freq, q, q, v),
                    ContainsSubstring("even number of rotated columns"));
}
