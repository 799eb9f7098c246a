// Backward kernel, by recomputation: with P = exp(S - lse),
//   dv = P^T dO,   dP = dO v^T,   dS = P (dP - D) elementwise,   D[i] = dO[i] . O[i],   dq = dS k,   dk = dS^T q.
//
// Three ways to cut the work, one body. Summed in the same order (dq over rising blocks of keys; dk and dv over the group's
// heads, then rising blocks of queries), all give the same bits, so the choice may look at the number of threads.
#pragma once

#include "kernels/attention.hpp"
#include "kernels/detail/attention_block.hpp"

namespace kvant::attention_detail {

enum class BackwardCut {
  heads,    ///< a unit is a key/value head with its group: scores once, five products a pair
  queries,  ///< a unit is a block of queries: dq only
  keys,     ///< a unit is a block of keys: dk and dv only; queries + keys together cost seven products a pair
};

/// Offsets of a worker's scratch. dq, dk, dv: sums in float32, needed only where the tensors are narrower.
struct BackwardScratch {
  long q_t, q, dout, dout_t, p, ds, lse, dot, k, v, dq, dk, dv, floats;

  BackwardScratch(const AttentionShape& shape, bool narrow, BackwardCut cut) {
    const long d = shape.qk_dim, w = shape.v_dim, keys = cut == BackwardCut::heads ? shape.seq : block_k;
    Layout layout;
    q_t = layout.take(d * lanes);
    q = layout.take(narrow ? block_q * d : 0);
    dout = layout.take(block_q * w);
    dout_t = layout.take(w * lanes);
    p = layout.take(long{block_k} * lanes);
    ds = layout.take(long{block_k} * lanes);
    lse = layout.take(lanes);
    dot = layout.take(lanes);
    k = layout.take(narrow ? block_k * d : 0);
    v = layout.take(narrow ? block_k * w : 0);
    dq = layout.take(narrow && cut != BackwardCut::keys ? block_q * d : 0);
    dk = layout.take(narrow && cut != BackwardCut::queries ? keys * d : 0);
    dv = layout.take(narrow && cut != BackwardCut::queries ? keys * w : 0);
    floats = layout.used;
  }
};

KOKKOS_INLINE_FUNCTION float* sums_of(float* x, float*) { return x; }
KOKKOS_INLINE_FUNCTION float* sums_of(bf16_t*, float* scratch) { return scratch; }

KOKKOS_INLINE_FUNCTION void store_sums(const TeamMember&, const float*, long, float*) {}
KOKKOS_INLINE_FUNCTION void store_sums(const TeamMember& team, const float* sums, long count, bf16_t* x) {
  for_lanes(team, static_cast<int>(count), [&](int begin, int end) {
    for (int i = begin; i < end; ++i) x[i] = to_bf16(sums[i]);
  });
}

template <class T>
struct BackwardKernel {
  AttentionShape shape;
  const T *q, *k, *v;
  const int32_t* segment;  ///< null: one segment
  const T* out;
  const float* lse;
  const T* dout;
  T *dq, *dk, *dv;
  float* scratch;
  BackwardCut cut;
  BackwardScratch at;
  int* next;
  int units;
  TileProduct product;

  /// A unit: heads [h0, h1) of batch row b (one group or one of its heads), blocks of queries [i0, i1), blocks of keys [j0, j1).
  struct Unit {
    int64_t b, h0, h1;
    int i0, i1, j0, j1;
  };
  /// One block of queries of a unit.
  struct Query {
    int64_t head;
    long q0;
    int rows, padded;
  };

  KOKKOS_FUNCTION void operator()(const TeamMember& team) const {
    float* const mine = scratch + team.league_rank() * at.floats;
    for (int t = draw_ticket(team, next); t < units; t = draw_ticket(team, next)) run(team, mine, unit(t));
  }

  /// Units of a head follow each other, the longest first.
  KOKKOS_FUNCTION Unit unit(int t) const {
    const int blocks = static_cast<int>((shape.seq + block_q - 1) / block_q);
    const int64_t group = shape.heads / shape.kv_heads;
    if (cut == BackwardCut::queries) {
      const int64_t head = t / blocks, i = blocks - 1 - t % blocks;
      return {head / shape.heads, head % shape.heads, head % shape.heads + 1, static_cast<int>(i), static_cast<int>(i) + 1, 0, blocks};
    }
    const int64_t head = cut == BackwardCut::keys ? t / blocks : t;
    const int64_t h0 = head % shape.kv_heads * group;
    const int j = cut == BackwardCut::keys ? t % blocks : 0;
    return {head / shape.kv_heads, h0, h0 + group, j, blocks, j, cut == BackwardCut::keys ? j + 1 : blocks};
  }

  KOKKOS_FUNCTION void run(const TeamMember& team, float* mine, const Unit& u) const {
    const int d = static_cast<int>(shape.qk_dim), w = static_cast<int>(shape.v_dim);
    const long k_begin = long{u.j0} * block_k, k_end = shape.seq < long{u.j1} * block_k ? shape.seq : long{u.j1} * block_k;
    const int64_t kv_row = (u.b * shape.kv_heads + u.h0 / (shape.heads / shape.kv_heads)) * shape.seq;
    float* const dk_sums = sums_of(dk + (kv_row + k_begin) * d, mine + at.dk);
    float* const dv_sums = sums_of(dv + (kv_row + k_begin) * w, mine + at.dv);
    if (cut != BackwardCut::queries) {
      fill(team, dk_sums, static_cast<int>((k_end - k_begin) * d), 0.0f);
      fill(team, dv_sums, static_cast<int>((k_end - k_begin) * w), 0.0f);
    }
    for (int64_t h = u.h0; h < u.h1; ++h)
      for (int i = u.i0; i < u.i1; ++i) query_block(team, mine, u, h, i, kv_row, dk_sums, dv_sums);
    if (cut != BackwardCut::queries) {
      store_sums(team, dk_sums, (k_end - k_begin) * d, dk + (kv_row + k_begin) * d);
      store_sums(team, dv_sums, (k_end - k_begin) * w, dv + (kv_row + k_begin) * w);
    }
  }

  KOKKOS_FUNCTION void query_block(const TeamMember& team, float* mine, const Unit& u, int64_t h, int i, int64_t kv_row,
                                   float* dk_sums, float* dv_sums) const {
    const long seq = shape.seq, q0 = long{i} * block_q;
    const int d = static_cast<int>(shape.qk_dim), w = static_cast<int>(shape.v_dim);
    const int rows = static_cast<int>(seq - q0 < block_q ? seq - q0 : block_q);
    const Query x{u.b * shape.heads + h, q0, rows, (rows + lane_step - 1) / lane_step * lane_step};
    const int32_t* tokens = segment == nullptr ? nullptr : segment + u.b * seq;
    const SegmentRange q_range = segment_range(tokens, q0, rows);
    T* const dq_rows = dq + (x.head * seq + q0) * d;
    float* const dq_sums = sums_of(dq_rows, mine + at.dq);

    load_query(team, mine, u.b, h, x);
    const float* qb = as_float(team, q + (x.head * seq + q0) * d, rows * d, mine + at.q);
    if (cut != BackwardCut::keys) fill(team, dq_sums, rows * d, 0.0f);
    for (int j = u.j0; j < u.j1 && j <= i; ++j) {
      const long k0 = long{j} * block_k;
      const int keys = static_cast<int>(seq - k0 < block_k ? seq - k0 : block_k);
      const SegmentRange k_range = segment_range(tokens, k0, keys);
      if (!k_range.meets(q_range)) continue;
      const float* kb = as_float(team, k + (kv_row + k0) * d, keys * d, mine + at.k);
      const float* vb = as_float(team, v + (kv_row + k0) * w, keys * w, mine + at.v);
      scores(team, mine, x, k0, keys, kb, vb, k_range.same(q_range) ? nullptr : tokens);
      if (cut != BackwardCut::queries) {
        const long row = k0 - long{u.j0} * block_k;
        product(team, keys, w, rows, mine + at.p, lanes, false, mine + at.dout, w, dv_sums + row * w, w, true);
        product(team, keys, d, rows, mine + at.ds, lanes, false, qb, d, dk_sums + row * d, d, true);
      }
      if (cut != BackwardCut::keys) product(team, rows, d, keys, mine + at.ds, lanes, true, kb, d, dq_sums, d, true);
    }
    if (cut != BackwardCut::keys) store_sums(team, dq_sums, long{rows} * d, dq_rows);
  }

  /// What a block of queries needs whatever the keys: q and dO transposed, dO gathered from its token-major rows, lse, D.
  KOKKOS_FUNCTION void load_query(const TeamMember& team, float* mine, int64_t b, int64_t h, const Query& x) const {
    const int d = static_cast<int>(shape.qk_dim), w = static_cast<int>(shape.v_dim);
    const long first = ((b * shape.seq + x.q0) * shape.heads + h) * w, step = shape.heads * w;
    transpose_in(team, q + (x.head * shape.seq + x.q0) * d, d, x.rows, x.padded, d, mine + at.q_t);
    transpose_in(team, dout + first, step, x.rows, x.padded, w, mine + at.dout_t);
    for_lanes(team, x.padded, [&](int begin, int end) {
      for (int row = begin; row < end; ++row) {
        float dot = 0;
        for (int col = 0; row < x.rows && col < w; ++col) {
          const float g = to_float(dout[first + row * step + col]);
          mine[at.dout + row * w + col] = g;
          dot = Kokkos::fma(g, to_float(out[first + row * step + col]), dot);
        }
        mine[at.dot + row] = dot;
        mine[at.lse + row] = row < x.rows ? lse[x.head * shape.seq + x.q0 + row] : 0.0f;
      }
    });
  }

  /// P^T and dS^T of one pair; `tokens` not null: the pair needs the segment mask.
  KOKKOS_FUNCTION void scores(const TeamMember& team, float* mine, const Query& x, long k0, int keys, const float* kb,
                              const float* vb, const int32_t* tokens) const {
    const int d = static_cast<int>(shape.qk_dim), w = static_cast<int>(shape.v_dim);
    float* const p = mine + at.p;
    float* const ds = mine + at.ds;
    product(team, keys, x.padded, d, kb, d, false, mine + at.q_t, lanes, p, lanes, false);
    product(team, keys, x.padded, w, vb, w, false, mine + at.dout_t, lanes, ds, lanes, false);
    mask_causal(team, p, x.q0, k0, keys, x.padded);
    if (tokens != nullptr) mask_segments(team, p, tokens + x.q0, tokens + k0, keys, x.rows);
    for_lanes(team, x.padded, [&](int begin, int end) {
      softmax_gradient(p, ds, keys, begin, end, mine + at.lse, mine + at.dot);
    });
  }

  static KOKKOS_FUNCTION void softmax_gradient(float* __restrict__ p, float* __restrict__ ds, int keys, int begin, int end,
                                               const float* __restrict__ lse, const float* __restrict__ dot) {
    for (int key = 0; key < keys; ++key)
      for (int c = begin; c < end; ++c) {
        const float weight = exp_lane(p[key * lanes + c] - lse[c]);
        p[key * lanes + c] = weight;
        ds[key * lanes + c] = weight * (ds[key * lanes + c] - dot[c]);
      }
  }
};

}  // namespace kvant::attention_detail
