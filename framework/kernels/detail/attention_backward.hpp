// Backward kernel, by recomputation: with P = exp(S - lse),
//   dv = P^T dO,   dP = dO v^T,   dS = P (dP - D) elementwise,   D[i] = dO[i] . O[i],   dq = dS k,   dk = dS^T q.
//
// Three ways to cut the work, one body. Summed in the same order (dq over rising blocks of keys; dk and dv over the
// group's heads, then rising blocks of queries), all give the same bits, so the choice may look at the number of
// threads.
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
  long q_t, q, dout, dout_t, out_t, p, ds, lse, dot, k, v, dq, dk, dv, floats;

  BackwardScratch(const AttentionShape& shape, bool narrow, BackwardCut cut) {
    const long d = shape.qk_dim, w = shape.v_dim, keys = cut == BackwardCut::heads ? shape.seq : block_k;
    Layout layout;
    q_t = layout.take(d * lanes);
    q = layout.take(narrow ? block_q * d : 0);
    dout = layout.take(block_q * w);
    dout_t = layout.take(w * lanes);
    out_t = layout.take(w * lanes);
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

/// `rows` rows that lie `step` apart, as float32 one after another.
template <class T>
KOKKOS_INLINE_FUNCTION void gather_rows(const TeamMember& team, const T* from, long step, int rows, int cols,
                                        float* to) {
  for_lanes(team, rows, [&](int begin, int end) {
    for (int row = begin; row < end; ++row)
      for (int col = 0; col < cols; ++col) to[row * cols + col] = to_float(from[row * step + col]);
  });
}

/// dot[c] = sum over rows of a[row][c] b[row][c], rows rising, by fused multiply-adds.
KOKKOS_INLINE_FUNCTION void lane_dot(const float* __restrict__ a, const float* __restrict__ b, int rows, int begin,
                                     int end, float* __restrict__ dot) {
  for (int c = begin; c < end; ++c) dot[c] = 0;
  for (int row = 0; row < rows; ++row)
    for (int c = begin; c < end; ++c) dot[c] = fused(a[row * lanes + c], b[row * lanes + c], dot[c]);
}

/// From scores and dP to P and dS, by columns [begin, end).
KOKKOS_INLINE_FUNCTION void softmax_gradient(float* __restrict__ p, float* __restrict__ ds, int keys, int begin,
                                             int end, const float* __restrict__ lse, const float* __restrict__ dot) {
  for (int key = 0; key < keys; ++key)
    for (int c = begin; c < end; ++c) {
      const float weight = softmax_exp(p[key * lanes + c] - lse[c]);
      p[key * lanes + c] = weight;
      ds[key * lanes + c] = weight * (ds[key * lanes + c] - dot[c]);
    }
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
  TileOps tile;

  /// A unit: heads [h0, h1) of batch row b (one group or one of its heads), blocks of queries [i0, i1), blocks of keys
  /// [j0, j1).
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
      return {head / shape.heads,
              head % shape.heads,
              head % shape.heads + 1,
              static_cast<int>(i),
              static_cast<int>(i) + 1,
              0,
              blocks};
    }
    const int64_t head = cut == BackwardCut::keys ? t / blocks : t;
    const int64_t h0 = head % shape.kv_heads * group;
    const int j = cut == BackwardCut::keys ? t % blocks : 0;
    return {head / shape.kv_heads, h0, h0 + group, j, blocks, j, cut == BackwardCut::keys ? j + 1 : blocks};
  }

  KOKKOS_FUNCTION void run(const TeamMember& team, float* mine, const Unit& u) const {
    const int d = static_cast<int>(shape.qk_dim), w = static_cast<int>(shape.v_dim);
    const long k_begin = long{u.j0} * block_k,
               k_end = shape.seq < long{u.j1} * block_k ? shape.seq : long{u.j1} * block_k;
    const int64_t kv_row = (u.b * shape.kv_heads + u.h0 / (shape.heads / shape.kv_heads)) * shape.seq;
    float* const dk_sums = float_target(dk + (kv_row + k_begin) * d, mine + at.dk);
    float* const dv_sums = float_target(dv + (kv_row + k_begin) * w, mine + at.dv);
    if (cut != BackwardCut::queries) {
      fill(team, dk_sums, static_cast<int>((k_end - k_begin) * d), 0.0f);
      fill(team, dv_sums, static_cast<int>((k_end - k_begin) * w), 0.0f);
    }
    for (int64_t h = u.h0; h < u.h1; ++h)
      for (int i = u.i0; i < u.i1; ++i) query_block(team, mine, u, h, i, kv_row, dk_sums, dv_sums);
    if (cut != BackwardCut::queries) {
      store_floats(team, dk_sums, static_cast<int>(k_end - k_begin) * d, dk + (kv_row + k_begin) * d);
      store_floats(team, dv_sums, static_cast<int>(k_end - k_begin) * w, dv + (kv_row + k_begin) * w);
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
    float* const dq_sums = float_target(dq_rows, mine + at.dq);

    const float* qb = as_float(team, q + (x.head * seq + q0) * d, rows * d, mine + at.q);
    load_query(team, mine, u.b, h, x, qb);
    if (cut != BackwardCut::keys) fill(team, dq_sums, rows * d, 0.0f);
    const long k_begin = long{u.j0} * block_k,
               k_end = q0 + rows < long{u.j1} * block_k ? q0 + rows : long{u.j1} * block_k;
    for (Rectangle r = rectangle_at(k_begin, q0, rows); r.k0 < k_end; r = rectangle_at(r.k0 + r.keys, q0, rows)) {
      const SegmentRange k_range = segment_range(tokens, r.k0, r.keys);
      if (!k_range.meets(q_range)) continue;
      const float* kb = as_float(team, k + (kv_row + r.k0) * d, r.keys * d, mine + at.k);
      const float* vb = as_float(team, v + (kv_row + r.k0) * w, r.keys * w, mine + at.v);
      scores(team, mine, x, r, kb, vb, k_range.same(q_range) ? nullptr : tokens);
      const float *const p = mine + at.p + r.lane0, *const ds = mine + at.ds + r.lane0;
      const int count = rows - r.lane0;
      if (cut != BackwardCut::queries) {
        const long row = r.k0 - k_begin;
        tile.product(team, r.keys, w, count, p, lanes, false, mine + at.dout + r.lane0 * w, w, dv_sums + row * w, w,
                     true);
        tile.product(team, r.keys, d, count, ds, lanes, false, qb + r.lane0 * d, d, dk_sums + row * d, d, true);
      }
      if (cut != BackwardCut::keys)
        tile.product(team, count, d, r.keys, ds, lanes, true, kb, d, dq_sums + r.lane0 * d, d, true);
    }
    if (cut != BackwardCut::keys) store_floats(team, dq_sums, rows * d, dq_rows);
  }

  /// What a block of queries needs whatever the keys: q and dO transposed, dO gathered from its token-major rows, lse,
  /// D.
  KOKKOS_FUNCTION void load_query(const TeamMember& team, float* mine, int64_t b, int64_t h, const Query& x,
                                  const float* qb) const {
    const int d = static_cast<int>(shape.qk_dim), w = static_cast<int>(shape.v_dim);
    const long first = ((b * shape.seq + x.q0) * shape.heads + h) * w, step = shape.heads * w;
    tile.to_lanes(team, x.rows, x.padded, d, qb, d, mine + at.q_t);
    gather_rows(team, out + first, step, x.rows, w, mine + at.dout);
    tile.to_lanes(team, x.rows, x.padded, w, mine + at.dout, w, mine + at.out_t);
    gather_rows(team, dout + first, step, x.rows, w, mine + at.dout);
    tile.to_lanes(team, x.rows, x.padded, w, mine + at.dout, w, mine + at.dout_t);
    for_lanes(team, x.padded, [&](int begin, int end) {
      // In the order in which the tile product sums dP: where one key has all the weight, dP - D is then exactly 0.
      lane_dot(mine + at.dout_t, mine + at.out_t, w, begin, end, mine + at.dot);
      for (int c = begin; c < end; ++c) mine[at.lse + c] = c < x.rows ? lse[x.head * shape.seq + x.q0 + c] : 0.0f;
    });
  }

  /// P^T and dS^T of one rectangle; `tokens` not null: it needs the segment mask.
  KOKKOS_FUNCTION void scores(const TeamMember& team, float* mine, const Query& x, const Rectangle& r, const float* kb,
                              const float* vb, const int32_t* tokens) const {
    const int d = static_cast<int>(shape.qk_dim), w = static_cast<int>(shape.v_dim), width = x.padded - r.lane0;
    float *const p = mine + at.p, *const ds = mine + at.ds;
    tile.product(team, r.keys, width, d, kb, d, false, mine + at.q_t + r.lane0, lanes, p + r.lane0, lanes, false);
    tile.product(team, r.keys, width, w, vb, w, false, mine + at.dout_t + r.lane0, lanes, ds + r.lane0, lanes, false);
    mask(team, p, r, x.q0, x.rows, tokens);
    for_lanes(team, width, [&](int begin, int end) {
      softmax_gradient(p + r.lane0, ds + r.lane0, r.keys, begin, end, mine + at.lse + r.lane0, mine + at.dot + r.lane0);
    });
  }
};

}  // namespace kvant::attention_detail
