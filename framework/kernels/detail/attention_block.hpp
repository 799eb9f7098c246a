// The pieces that attention's kernels are made of. A block pair is block_q queries x block_k keys of one head.
//
// Scores are kept transposed, [key][query]: one query is one lane. Then max, sum and rescaling run down the columns (no
// horizontal reductions on a CPU, one thread per query and coalesced loads on a GPU), and every product reads its right
// operand row by row as it lies in memory:
//   S^T = k q^T      O^T += v^T P^T      dP^T = v dO^T      dv += P^T dO      dk += dS^T q      dq += (dS^T)^T k
// so only q and dO are transposed, once per block of queries. One body serves all backends: on a host a team is one thread
// and lanes are a vectorised inner loop, on a device lanes are spread over the team.
#pragma once

#include "base/kokkos.hpp"
#include "kernels/isa/sgemm_leaf.hpp"
#include "numerics/bf16.hpp"

#include <cstdint>

namespace kvant::attention_detail {

inline constexpr int block_q = 64;
inline constexpr int block_k = 64;
/// Rows of a transposed block lie this far apart; lanes beyond the last query are zero up to a multiple of `lane_step`.
inline constexpr int lanes = block_q;
inline constexpr int lane_step = 16;

/// e^x for x <= 0 (softmax never asks for more), to 1 unit in the last place; exactly 0 below -87, NaN for NaN. Without calls or
/// branches, so that a loop over lanes becomes vector code. n = round(x / ln 2) by adding 1.5 * 2^23, r = x - n ln 2 in two
/// steps, e^r by a polynomial fitted for the smallest relative error on |r| <= ln 2 / 2 (4e-9), 2^n by its exponent bits.
KOKKOS_INLINE_FUNCTION float exp_lane(float x) {
  constexpr float magic = 0x1.8p23f;
  const float clamped = x < -87.0f ? -87.0f : x;
  const float shifted = Kokkos::fma(clamped, 0x1.715476p0f, magic);
  const float n = shifted - magic;
  const float r = Kokkos::fma(n, -0x1.7f7d1cp-20f, Kokkos::fma(n, -0x1.62e4p-1f, clamped));
  float q = Kokkos::fma(0x1.6a2434p-10f, r, 0x1.1239e2p-7f);
  q = Kokkos::fma(q, r, 0x1.5558f2p-5f);
  q = Kokkos::fma(q, r, 0x1.555492p-3f);
  q = Kokkos::fma(q, r, 0x1.fffffcp-2f);
  const float e = Kokkos::fma(q, r * r, r) + 1.0f;
  const auto power = (Kokkos::bit_cast<uint32_t>(shifted) + 127u) << 23;
  return x < -87.0f ? 0.0f : e * Kokkos::bit_cast<float>(power);
}

/// Lays out one worker's scratch: offsets in floats, a multiple of 64 bytes plus a skew, because two tiles whose addresses agree
/// modulo 4096 disturb each other in the L1 cache.
struct Layout {
  long used = 0;
  long take(long floats) {
    const long offset = used;
    used += (floats + 15) / 16 * 16 + 48;
    return offset;
  }
};

/// The next unit of work, the same for the whole team. Workers draw tickets, so that an uneven load (causal blocks, a busy core)
/// evens out; which worker computes a unit changes nothing in it.
KOKKOS_INLINE_FUNCTION int draw_ticket(const TeamMember& team, int* next) {
  int ticket = 0;
  Kokkos::single(Kokkos::PerTeam(team), [&](int& t) { t = Kokkos::atomic_fetch_add(next, 1); }, ticket);
  return ticket;
}

/// body(begin, end) on all of [0, count): one call on a host, one call per index on a device.
template <class Body>
KOKKOS_INLINE_FUNCTION void for_lanes([[maybe_unused]] const TeamMember& team, int count, const Body& body) {
  KOKKOS_IF_ON_HOST((body(0, count);))
  KOKKOS_IF_ON_DEVICE((
      Kokkos::parallel_for(Kokkos::TeamThreadRange(team, count), [&](int i) { body(i, i + 1); });
      team.team_barrier();))
}

/// C [m, n] (+)= op(A) [m, k] B [k, n]. A is stored [m, k], or [k, m] when transposed.
struct TileProduct {
  SgemmLeaf leaf;

  KOKKOS_INLINE_FUNCTION void operator()([[maybe_unused]] const TeamMember& team, int m, int n, int k, const float* a, long lda,
                                         bool trans_a, const float* b, long ldb, float* c, long ldc, bool accumulate) const {
    KOKKOS_IF_ON_HOST((leaf(m, n, k, a, lda, trans_a, b, ldb, false, c, ldc, 1.0f, accumulate);))
    KOKKOS_IF_ON_DEVICE((
        Kokkos::parallel_for(Kokkos::TeamThreadRange(team, m * n), [&](int e) {
          const int row = e / n, col = e % n;
          float sum = 0;
          for (int i = 0; i < k; ++i) sum += (trans_a ? a[i * lda + row] : a[row * lda + i]) * b[i * ldb + col];
          c[row * ldc + col] = accumulate ? c[row * ldc + col] + sum : sum;
        });
        team.team_barrier();))
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

/// dst[col][row] = src[row][col], with zeros in lanes [rows, padded).
template <class T>
KOKKOS_INLINE_FUNCTION void transpose_in(const TeamMember& team, const T* src, long ld, int rows, int padded, int cols, float* dst) {
  for_lanes(team, cols, [&](int begin, int end) {
    for (int row = 0; row < rows; ++row)
      for (int col = begin; col < end; ++col) dst[col * lanes + row] = to_float(src[row * ld + col]);
    for (int col = begin; col < end; ++col)
      for (int row = rows; row < padded; ++row) dst[col * lanes + row] = 0;
  });
}

/// Which segments a block of tokens touches. Two blocks whose ranges do not meet have no pair to compute; where both are
/// one and the same segment nothing needs masking. Holds for any assignment of segments to tokens.
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

/// Masked scores become -inf, whose exponential is exactly 0. q0 and k0 are the positions of the block's first query and key.
KOKKOS_INLINE_FUNCTION void mask_causal(const TeamMember& team, float* s, long q0, long k0, int keys, int padded) {
  if (k0 + keys - 1 <= q0) return;
  for_lanes(team, padded, [&](int begin, int end) {
    for (int key = 0; key < keys; ++key) {
      const int first = static_cast<int>(k0 - q0) + key;  // the first query that sees this key
      for (int c = begin; c < (first < end ? first : end); ++c) s[key * lanes + c] = -Kokkos::Experimental::infinity_v<float>;
    }
  });
}

KOKKOS_INLINE_FUNCTION void mask_segments(const TeamMember& team, float* s, const int32_t* of_query, const int32_t* of_key, int keys,
                                          int rows) {
  for_lanes(team, rows, [&](int begin, int end) {
    for (int key = 0; key < keys; ++key)
      for (int c = begin; c < end; ++c)
        if (of_query[c] != of_key[key]) s[key * lanes + c] = -Kokkos::Experimental::infinity_v<float>;
  });
}

}  // namespace kvant::attention_detail
