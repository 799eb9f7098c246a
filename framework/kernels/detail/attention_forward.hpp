// Forward kernel. A unit of work is one block of queries of one head; it walks the blocks of keys that its queries can
// see.
#pragma once

#include "kernels/attention.hpp"
#include "kernels/detail/attention_block.hpp"

namespace kvant::attention_detail {

/// Offsets of a worker's scratch.
struct ForwardScratch {
  long q, q_t, s, o_t, max, sum, scale, k, v, floats;

  ForwardScratch(const AttentionShape& shape, bool narrow) {
    const long d = shape.qk_dim, dv = shape.v_dim;
    Layout layout;
    q = layout.take(narrow ? block_q * (d > dv ? d : dv) : 0);  // queries at first, at the end the output's rows
    q_t = layout.take(d * lanes);
    s = layout.take(long{block_k} * lanes);
    o_t = layout.take(dv * lanes);
    max = layout.take(lanes);
    sum = layout.take(lanes);
    scale = layout.take(lanes);
    k = layout.take(narrow ? block_k * d : 0);
    v = layout.take(narrow ? block_k * dv : 0);
    floats = layout.used;
  }
};

/// One rectangle of scores becomes weights exp(s - max), by columns [begin, end); max and sum move on, and `scale` is
/// what the sums gathered so far must be multiplied by.
KOKKOS_INLINE_FUNCTION void online_softmax(float* __restrict__ s, int keys, int begin, int end, float* __restrict__ max,
                                           float* __restrict__ sum, float* __restrict__ scale) {
  for (int c = begin; c < end; ++c) scale[c] = max[c];
  for (int key = 0; key < keys; ++key)
    for (int c = begin; c < end; ++c) max[c] = quiet_less(max[c], s[key * lanes + c]) ? s[key * lanes + c] : max[c];
  for (int c = begin; c < end; ++c) {
    scale[c] = softmax_exp(scale[c] - max[c]);
    sum[c] *= scale[c];
  }
  float part[lanes];  // a block's own sum first: the error grows with the number of blocks, not of keys
  for (int c = begin; c < end; ++c) part[c] = 0;
  for (int key = 0; key < keys; ++key)
    for (int c = begin; c < end; ++c) {
      const float p = softmax_exp(s[key * lanes + c] - max[c]);
      s[key * lanes + c] = p;
      part[c] += p;
    }
  for (int c = begin; c < end; ++c) sum[c] += part[c];
}

/// x[row][c] *= factor[c] for lanes [begin, end).
KOKKOS_INLINE_FUNCTION void scale_lanes(float* __restrict__ x, int rows, int begin, int end,
                                        const float* __restrict__ factor) {
  for (int row = 0; row < rows; ++row)
    for (int c = begin; c < end; ++c) x[row * lanes + c] *= factor[c];
}

template <class T>
struct ForwardKernel {
  AttentionShape shape;
  const T *q, *k, *v;
  const int32_t* segment;  ///< null: one segment
  T* out;
  float* lse;
  float* scratch;
  ForwardScratch at;
  int* next;
  int units;
  TileOps tile;

  KOKKOS_FUNCTION void operator()(const TeamMember& team) const {
    float* const mine = scratch + team.league_rank() * at.floats;
    const int blocks = static_cast<int>((shape.seq + block_q - 1) / block_q);
    for (int t = draw_ticket(team, next); t < units; t = draw_ticket(team, next)) {
      // Blocks of a head follow each other (its keys stay in the cache), the longest first.
      const int64_t head = t / blocks;
      query_block(team, mine, head / shape.heads, head % shape.heads, long{blocks - 1 - t % blocks} * block_q);
    }
  }

  KOKKOS_FUNCTION void query_block(const TeamMember& team, float* mine, int64_t b, int64_t h, long q0) const {
    const long seq = shape.seq;
    const int d = static_cast<int>(shape.qk_dim), dv = static_cast<int>(shape.v_dim);
    const int rows = static_cast<int>(seq - q0 < block_q ? seq - q0 : block_q);
    const int padded = (rows + lane_step - 1) / lane_step * lane_step;
    const int64_t kv_head = b * shape.kv_heads + h / (shape.heads / shape.kv_heads);
    const int32_t* tokens = segment == nullptr ? nullptr : segment + b * seq;
    const SegmentRange q_range = segment_range(tokens, q0, rows);

    const float* qb = as_float(team, q + ((b * shape.heads + h) * seq + q0) * d, rows * d, mine + at.q);
    tile.to_lanes(team, rows, padded, d, qb, d, mine + at.q_t);
    fill(team, mine + at.o_t, dv * lanes, 0.0f);
    fill(team, mine + at.max, lanes, -Kokkos::Experimental::finite_max_v<float>);
    fill(team, mine + at.sum, lanes, 0.0f);

    for (Rectangle r = rectangle_at(0, q0, rows); r.k0 < q0 + rows; r = rectangle_at(r.k0 + r.keys, q0, rows)) {
      const SegmentRange k_range = segment_range(tokens, r.k0, r.keys);
      if (!k_range.meets(q_range)) continue;
      const float* kb = as_float(team, k + (kv_head * seq + r.k0) * d, r.keys * d, mine + at.k);
      const float* vb = as_float(team, v + (kv_head * seq + r.k0) * dv, r.keys * dv, mine + at.v);
      float *const s = mine + at.s, *const o_t = mine + at.o_t + r.lane0;
      const int width = padded - r.lane0;
      tile.product(team, r.keys, width, d, kb, d, false, mine + at.q_t + r.lane0, lanes, s + r.lane0, lanes, false);
      mask(team, s, r, q0, rows, k_range.same(q_range) ? nullptr : tokens);
      for_lanes(team, width, [&](int begin, int end) {
        float* const scale = mine + at.scale + r.lane0;
        online_softmax(s + r.lane0, r.keys, begin, end, mine + at.max + r.lane0, mine + at.sum + r.lane0, scale);
        scale_lanes(o_t, dv, begin, end, scale);
      });
      tile.product(team, dv, width, r.keys, vb, dv, true, s + r.lane0, lanes, o_t, lanes, true);
    }
    store(team, mine, b, h, q0, rows);
  }

  KOKKOS_FUNCTION void store(const TeamMember& team, float* mine, int64_t b, int64_t h, long q0, int rows) const {
    const int dv = static_cast<int>(shape.v_dim);
    const long first = ((b * shape.seq + q0) * shape.heads + h) * dv, step = shape.heads * dv;
    for_lanes(team, rows, [&](int begin, int end) {
      for (int c = begin; c < end; ++c) {
        mine[at.scale + c] = 1.0f / mine[at.sum + c];
        lse[(b * shape.heads + h) * shape.seq + q0 + c] = mine[at.max + c] + fast_log(mine[at.sum + c]);
      }
      scale_lanes(mine + at.o_t, dv, begin, end, mine + at.scale);
    });
    float* const rows_out = float_target(out + first, mine + at.q);
    const long rows_step = sizeof(T) == sizeof(float) ? step : dv;
    tile.transpose(team, dv, rows, mine + at.o_t, lanes, rows_out, rows_step);
    for (int row = 0; row < rows; ++row) store_floats(team, rows_out + row * rows_step, dv, out + first + row * step);
  }
};

}  // namespace kvant::attention_detail
