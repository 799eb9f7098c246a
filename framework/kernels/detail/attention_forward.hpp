// Forward kernel. A unit of work is one block of queries of one head; it walks the blocks of keys that its queries can see.
#pragma once

#include "kernels/attention.hpp"
#include "kernels/detail/attention_block.hpp"

namespace kvant::attention_detail {

/// Offsets of a worker's scratch.
struct ForwardScratch {
  long q_t, s, o_t, max, sum, scale, k, v, floats;

  ForwardScratch(const AttentionShape& shape, bool narrow) {
    const long d = shape.qk_dim, dv = shape.v_dim;
    Layout layout;
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

/// One block of scores becomes one block of weights exp(s - max); max and sum move on, and `scale` is what the sums gathered so
/// far must be multiplied by.
KOKKOS_INLINE_FUNCTION void online_softmax(float* __restrict__ s, int keys, int begin, int end, float* __restrict__ max,
                                           float* __restrict__ sum, float* __restrict__ scale) {
  for (int c = begin; c < end; ++c) scale[c] = max[c];
  for (int key = 0; key < keys; ++key)
    for (int c = begin; c < end; ++c) max[c] = s[key * lanes + c] > max[c] ? s[key * lanes + c] : max[c];
  for (int c = begin; c < end; ++c) {
    scale[c] = exp_lane(scale[c] - max[c]);
    sum[c] *= scale[c];
  }
  float part[lanes];  // a block's own sum first: the error grows with the number of blocks, not of keys
  for (int c = begin; c < end; ++c) part[c] = 0;
  for (int key = 0; key < keys; ++key)
    for (int c = begin; c < end; ++c) {
      const float p = exp_lane(s[key * lanes + c] - max[c]);
      s[key * lanes + c] = p;
      part[c] += p;
    }
  for (int c = begin; c < end; ++c) sum[c] += part[c];
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
  TileProduct product;

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

    transpose_in(team, q + ((b * shape.heads + h) * seq + q0) * d, d, rows, padded, d, mine + at.q_t);
    fill(team, mine + at.o_t, dv * lanes, 0.0f);
    fill(team, mine + at.max, lanes, -Kokkos::Experimental::finite_max_v<float>);
    fill(team, mine + at.sum, lanes, 0.0f);

    for (long k0 = 0; k0 < q0 + rows; k0 += block_k) {
      const int keys = static_cast<int>(q0 + rows - k0 < block_k ? q0 + rows - k0 : block_k);
      const SegmentRange k_range = segment_range(tokens, k0, keys);
      if (!k_range.meets(q_range)) continue;
      const float* kb = as_float(team, k + (kv_head * seq + k0) * d, keys * d, mine + at.k);
      const float* vb = as_float(team, v + (kv_head * seq + k0) * dv, keys * dv, mine + at.v);
      float* s = mine + at.s;
      product(team, keys, padded, d, kb, d, false, mine + at.q_t, lanes, s, lanes, false);
      mask_causal(team, s, q0, k0, keys, padded);
      if (!k_range.same(q_range)) mask_segments(team, s, tokens + q0, tokens + k0, keys, rows);
      for_lanes(team, padded, [&](int begin, int end) {
        online_softmax(s, keys, begin, end, mine + at.max, mine + at.sum, mine + at.scale);
        for (int col = 0; col < dv; ++col)
          for (int c = begin; c < end; ++c) mine[at.o_t + col * lanes + c] *= mine[at.scale + c];
      });
      product(team, dv, padded, keys, vb, dv, true, s, lanes, mine + at.o_t, lanes, true);
    }
    store(team, mine, b, h, q0, rows);
  }

  KOKKOS_FUNCTION void store(const TeamMember& team, const float* mine, int64_t b, int64_t h, long q0, int rows) const {
    const int dv = static_cast<int>(shape.v_dim);
    for_lanes(team, rows, [&](int begin, int end) {
      for (int row = begin; row < end; ++row) {
        const float norm = 1.0f / mine[at.sum + row];
        T* o = out + ((b * shape.seq + q0 + row) * shape.heads + h) * dv;
        for (int col = 0; col < dv; ++col) o[col] = from_float<T>(mine[at.o_t + col * lanes + row] * norm);
        lse[(b * shape.heads + h) * shape.seq + q0 + row] = mine[at.max + row] + Kokkos::log(mine[at.sum + row]);
      }
    });
  }
};

}  // namespace kvant::attention_detail
