// The pieces that attention's kernels are made of. A block pair is block_q queries x block_k keys of one head.
//
// Scores are kept transposed, [key][query]: one query is one lane. Then max, sum and rescaling run down the columns (no
// horizontal reductions on a CPU, one thread per query and coalesced loads on a GPU), and every product reads its right
// operand row by row as it lies in memory:
//   S^T = k q^T      O^T += v^T P^T      dP^T = v dO^T      dv += P^T dO      dk += dS^T q      dq += (dS^T)^T k
// so only q and dO are transposed, once per block of queries. One body serves all backends: on a host a team is one
// thread and lanes are a vectorised inner loop, on a device lanes are spread over the team.
#pragma once

#include "base/kokkos.hpp"
#include "kernels/isa/sgemm_leaf.hpp"
#include "kernels/isa/transpose_leaf.hpp"
#include "kernels/math.hpp"
#include "numerics/bf16.hpp"

#include <cstdint>

namespace kvant::attention_detail {

inline constexpr int block_q = 64;
inline constexpr int block_k = 64;
/// Rows of a transposed block lie this far apart; lanes beyond the last query are zero up to a multiple of `lane_step`.
inline constexpr int lanes = block_q;
inline constexpr int lane_step = 16;
inline constexpr int strip = 16;
static_assert(block_q % strip == 0 && strip % lane_step == 0 && block_q == block_k);

inline constexpr float minus_infinity = -__builtin_huge_valf();

/// e^x for x <= 0, to 1 unit in the last place; exactly 0 from -87 down, NaN for NaN. A leaner fast_exp
/// (kernels/math.hpp): without large arguments and without subnormal results, which masked scores would produce by the
/// block and which are slow on some CPUs. The polynomial is fitted for the smallest relative error on |r| <= ln 2 / 2
/// (4e-9).
KOKKOS_FORCEINLINE_FUNCTION float softmax_exp(float x) {
  constexpr float round_to_integer = 0x1.8p23f;
  const bool vanishes = quiet_less(x, -87.0f);
  x = vanishes ? -87.0f : x;
  const float shifted = fused(x, 0x1.715476p+0f, round_to_integer);
  const float n = shifted - round_to_integer;
  const float r = fused(n, -0x1.7f7d1cp-20f, fused(n, -0x1.62e4p-1f, x));
  float q = fused(0x1.6a2434p-10f, r, 0x1.1239e2p-7f);
  q = fused(q, r, 0x1.5558f2p-5f);
  q = fused(q, r, 0x1.555492p-3f);
  q = fused(q, r, 0x1.fffffcp-2f);
  const float e = fused(q, r * r, r) + 1.0f;
  return vanishes ? 0.0f : e * float_of((bits_of(shifted) + 127u) << 23);
}

/// Lays out one worker's scratch: offsets in floats, a multiple of 64 bytes plus a skew, because two tiles whose
/// addresses agree modulo 4096 disturb each other in the L1 cache.
struct Layout {
  long used = 0;
  long take(long floats) {
    const long offset = used;
    used += (floats + 15) / 16 * 16 + 48;
    return offset;
  }
};

/// The next unit of work, the same for the whole team. Workers draw tickets, so that an uneven load (causal blocks, a
/// busy core) evens out; which worker computes a unit changes nothing in it.
KOKKOS_INLINE_FUNCTION int draw_ticket(const TeamMember& team, int* next) {
  int ticket = 0;
  Kokkos::single(Kokkos::PerTeam(team), [&](int& t) { t = Kokkos::atomic_fetch_add(next, 1); }, ticket);
  return ticket;
}

/// body(begin, end) on all of [0, count): one call on a host, one call per index on a device.
template <class Body>
KOKKOS_INLINE_FUNCTION void for_lanes([[maybe_unused]] const TeamMember& team, int count, const Body& body) {
  KOKKOS_IF_ON_HOST((body(0, count);))
  KOKKOS_IF_ON_DEVICE((Kokkos::parallel_for(Kokkos::TeamThreadRange(team, count), [&](int i) { body(i, i + 1); });
                       team.team_barrier();))
}

/// What a block needs of the instruction set: leaf functions on a host, plain loops over the team on a device.
struct TileOps {
  SgemmLeaf product_leaf = nullptr;
  TransposeLeaf transpose_leaf = nullptr;

  /// C [m, n] (+)= op(A) [m, k] B [k, n]. A is stored [m, k], or [k, m] when transposed.
  KOKKOS_INLINE_FUNCTION void product([[maybe_unused]] const TeamMember& team, int m, int n, int k, const float* a,
                                      long lda, bool trans_a, const float* b, long ldb, float* c, long ldc,
                                      bool accumulate) const {
    KOKKOS_IF_ON_HOST((product_leaf(m, n, k, a, lda, trans_a, b, ldb, false, c, ldc, 1.0f, accumulate);))
    KOKKOS_IF_ON_DEVICE((Kokkos::parallel_for(Kokkos::TeamThreadRange(team, m * n),
                                              [&](int e) {
                                                const int row = e / n, col = e % n;
                                                float sum = 0;
                                                for (int i = 0; i < k; ++i)
                                                  sum = fused(trans_a ? a[i * lda + row] : a[row * lda + i],
                                                              b[i * ldb + col], sum);
                                                c[row * ldc + col] = accumulate ? c[row * ldc + col] + sum : sum;
                                              });
                         team.team_barrier();))
  }

  /// to[col][row] = from[row][col].
  KOKKOS_INLINE_FUNCTION void transpose([[maybe_unused]] const TeamMember& team, int rows, int cols, const float* from,
                                        long ld_from, float* to, long ld_to) const {
    KOKKOS_IF_ON_HOST((transpose_leaf(rows, cols, from, ld_from, to, ld_to);))
    KOKKOS_IF_ON_DEVICE(
        (Kokkos::parallel_for(Kokkos::TeamThreadRange(team, rows * cols),
                              [&](int e) { to[e / rows * ld_to + e % rows] = from[e % rows * ld_from + e / rows]; });
         team.team_barrier();))
  }

  /// A block of rows as lanes: transposed, with zeros in lanes [rows, padded).
  KOKKOS_INLINE_FUNCTION void to_lanes(const TeamMember& team, int rows, int padded, int cols, const float* from,
                                       long ld, float* to) const {
    transpose(team, rows, cols, from, ld, to, lanes);
    if (rows == padded) return;
    for_lanes(team, cols, [&](int begin, int end) {
      for (int col = begin; col < end; ++col)
        for (int lane = rows; lane < padded; ++lane) to[col * lanes + lane] = 0;
    });
  }
};

KOKKOS_INLINE_FUNCTION void fill(const TeamMember& team, float* x, int count, float value) {
  for_lanes(team, count, [&](int begin, int end) {
    for (int i = begin; i < end; ++i) x[i] = value;
  });
}

/// `count` contiguous numbers as float32: where they lie, or widened into `scratch`.
KOKKOS_INLINE_FUNCTION const float* as_float(const TeamMember&, const float* x, int, float*) { return x; }
KOKKOS_INLINE_FUNCTION const float* as_float(const TeamMember& team, const bf16_t* x, int count, float* scratch) {
  for_lanes(team, count, [&](int begin, int end) {
    for (int i = begin; i < end; ++i) scratch[i] = to_float(x[i]);
  });
  return scratch;
}

/// Rounds `count` numbers into x; nothing to do where x is the float32 tensor in which they were summed.
KOKKOS_INLINE_FUNCTION void store_floats(const TeamMember&, const float*, int, float*) {}
KOKKOS_INLINE_FUNCTION void store_floats(const TeamMember& team, const float* sums, int count, bf16_t* x) {
  for_lanes(team, count, [&](int begin, int end) {
    for (int i = begin; i < end; ++i) x[i] = to_bf16(sums[i]);
  });
}

/// Where float32 results for x are gathered: in x itself, or in `scratch` where x is narrower.
KOKKOS_INLINE_FUNCTION float* float_target(float* x, float*) { return x; }
KOKKOS_INLINE_FUNCTION float* float_target(bf16_t*, float* scratch) { return scratch; }

/// A rectangle of scores: keys [k0, k0 + keys) and the block's queries from lane `lane0` on. Key blocks before the
/// block of queries are taken whole; within it (the diagonal) strips of keys leave out the queries that come before
/// them.
struct Rectangle {
  long k0;
  int keys, lane0;
};

KOKKOS_INLINE_FUNCTION Rectangle rectangle_at(long k0, long q0, int rows) {
  if (k0 < q0) return {k0, static_cast<int>(q0 - k0 < block_k ? q0 - k0 : block_k), 0};
  const long left = q0 + rows - k0;
  return {k0, static_cast<int>(left < strip ? left : strip), static_cast<int>(k0 - q0)};
}

/// Which segments a block of tokens touches. Two blocks whose ranges do not meet have no pair to compute; where both
/// are one and the same segment nothing needs masking. Holds for any assignment of segments to tokens.
struct SegmentRange {
  int32_t low = 0, high = 0;
  KOKKOS_INLINE_FUNCTION bool meets(const SegmentRange& other) const { return low <= other.high && other.low <= high; }
  KOKKOS_INLINE_FUNCTION bool same(const SegmentRange& other) const {
    return low == high && other.low == other.high && low == other.low;
  }
};

KOKKOS_INLINE_FUNCTION SegmentRange segment_range(const int32_t* segment, long begin, int count) {
  if (segment == nullptr) return {};
  SegmentRange range{segment[begin], segment[begin]};
  for (int i = 1; i < count; ++i) {
    const int32_t s = segment[begin + i];
    range.low = s < range.low ? s : range.low;
    range.high = s > range.high ? s : range.high;
  }
  return range;
}

/// Masked scores become -inf, whose exponential is exactly 0. `tokens` null: no segment mask.
KOKKOS_INLINE_FUNCTION void mask(const TeamMember& team, float* s, const Rectangle& r, long q0, int rows,
                                 const int32_t* tokens) {
  const int before = static_cast<int>(r.k0 - q0);  // lane of the first query that sees the first key
  if (before + r.keys - 1 <= r.lane0 && tokens == nullptr) return;
  for_lanes(team, rows - r.lane0, [&](int begin, int end) {
    for (int key = 0; key < r.keys; ++key) {
      float* row = s + key * lanes + r.lane0;
      const int hidden = before + key - r.lane0;
      for (int c = begin; c < (hidden < end ? hidden : end); ++c) row[c] = minus_infinity;
      if (tokens == nullptr) continue;
      for (int c = begin; c < end; ++c)
        if (tokens[q0 + r.lane0 + c] != tokens[r.k0 + key]) row[c] = minus_infinity;
    }
  });
}

}  // namespace kvant::attention_detail
