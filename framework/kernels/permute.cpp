#include "kernels/permute.hpp"

#include "kernels/detail/lanes.hpp"
#include "kernels/detail/rows.hpp"
#include "numerics/bf16.hpp"
#include "tensor/dispatch.hpp"

namespace kvant {
using namespace detail;

namespace {

// Slots that one work item counts and places. The sort is stable whatever the number.
constexpr long slot_chunk = exec_is_host ? 2048 : 64;

void count_slots(const Exec& exec, const int32_t* index, long slots, long experts, int32_t* histogram) {
  const long chunks = (slots + slot_chunk - 1) / slot_chunk;
  Kokkos::parallel_for(
      "kvant::route_plan_count", Range(exec.space, 0, chunks), KOKKOS_LAMBDA(const long c) {
        int32_t* count = histogram + c * experts;
        for (long e = 0; e < experts; ++e) count[e] = 0;
        const long end = (c + 1) * slot_chunk < slots ? (c + 1) * slot_chunk : slots;
        for (long i = c * slot_chunk; i < end; ++i) ++count[index[i]];
      });
}

/// Turns the counts of each chunk into the number of rows of the same expert in earlier chunks, and fills offsets[e+1]
/// with totals.
void scan_chunks(const Exec& exec, long chunks, long experts, int32_t* histogram, int32_t* offsets) {
  Kokkos::parallel_for(
      "kvant::route_plan_scan", Range(exec.space, 0, experts), KOKKOS_LAMBDA(const long e) {
        int32_t before = 0;
        for (long c = 0; c < chunks; ++c) {
          const int32_t here = histogram[c * experts + e];
          histogram[c * experts + e] = before;
          before += here;
        }
        offsets[e + 1] = before;
      });
}

void scan_experts(const Exec& exec, long experts, int32_t* offsets) {
  Kokkos::parallel_for(
      "kvant::route_plan_offsets", Range(exec.space, 0, 1), KOKKOS_LAMBDA(const long) {
        offsets[0] = 0;
        for (long e = 0; e < experts; ++e) offsets[e + 1] += offsets[e];
      });
}

void place_slots(const Exec& exec, const int32_t* index, long slots, long experts, int32_t* histogram,
                 const int32_t* offsets, int32_t* row_of_slot, int32_t* slot_of_row) {
  const long chunks = (slots + slot_chunk - 1) / slot_chunk;
  Kokkos::parallel_for(
      "kvant::route_plan_place", Range(exec.space, 0, chunks), KOKKOS_LAMBDA(const long c) {
        int32_t* next = histogram + c * experts;
        const long end = (c + 1) * slot_chunk < slots ? (c + 1) * slot_chunk : slots;
        for (long i = c * slot_chunk; i < end; ++i) {
          const int32_t e = index[i];
          const int32_t row = offsets[e] + next[e]++;
          row_of_slot[i] = row;
          slot_of_row[row] = static_cast<int32_t>(i);
        }
      });
}

template <class T>
KOKKOS_INLINE_FUNCTION void copy_piece(const T* in, T* out, long begin, long end) {
  KVANT_INDEPENDENT
  for (long i = begin; i < end; ++i) out[i] = in[i];
}

template <class T>
void gather_rows(const Exec& exec, Matrix<T> x, const int32_t* slot_of_row, long k, Matrix<T> xs, Pieces pieces) {
  Kokkos::parallel_for(
      "kvant::permute_forward", Range(exec.space, 0, pieces.count()), KOKKOS_LAMBDA(const long i) {
        const Piece p = pieces[i];
        copy_piece(x.row(slot_of_row[p.row] / k), xs.row(p.row), p.begin, p.end);
      });
}

/// sum over k of weight[k] * rows[k] (weight 1 where null) on top of base (0 where null), in float32 and in order, then
/// rounded.
template <class T>
KOKKOS_INLINE_FUNCTION void sum_piece(Matrix<T> rows, const int32_t* row_of, const float* weight, long k, const T* base,
                                      T* out, long begin, long end) {
  float total[column_chunk];
  const long n = end - begin;
  if (base != nullptr) {
    for (long i = 0; i < n; ++i) total[i] = to_float(base[begin + i]);
  } else {
    for (long i = 0; i < n; ++i) total[i] = 0.0f;
  }
  for (long j = 0; j < k; ++j) {
    const T* row = rows.row(row_of[j]) + begin;
    const float w = weight != nullptr ? weight[j] : 1.0f;
    for (long i = 0; i < n; ++i) total[i] += w * to_float(row[i]);
  }
  for (long i = 0; i < n; ++i) out[begin + i] = from_float<T>(total[i]);
}

template <class T>
void sum_rows(const Exec& exec, const char* label, Matrix<T> rows, const int32_t* row_of_slot, const float* weight,
              long k, Matrix<T> base, Matrix<T> out, Pieces pieces) {
  Kokkos::parallel_for(
      label, Range(exec.space, 0, pieces.count()), KOKKOS_LAMBDA(const long i) {
        const Piece p = pieces[i];
        sum_piece(rows, row_of_slot + p.row * k, weight != nullptr ? weight + p.row * k : nullptr, k,
                  base.data != nullptr ? base.row(p.row) : nullptr, out.row(p.row), p.begin, p.end);
      });
}

template <class T>
KOKKOS_INLINE_FUNCTION void scaled_copy(const T* in, float factor, T* out, long n) {
  KVANT_INDEPENDENT
  for (long i = 0; i < n; ++i) out[i] = from_float<T>(factor * to_float(in[i]));
}

template <class T>
void combine_backward_slots(const Exec& exec, Matrix<T> dy, Matrix<T> ys, const int32_t* row_of_slot,
                            const float* weight, long k, Matrix<T> dys, float* dweight, long slots, long d) {
  Kokkos::parallel_for(
      "kvant::combine_backward", Range(exec.space, 0, slots), KOKKOS_LAMBDA(const long slot) {
        const T* g = dy.row(slot / k);
        const T* y = ys.row(row_of_slot[slot]);
        dweight[slot] = lane_sum(d, [=](long i) { return to_float(g[i]) * to_float(y[i]); });
        scaled_copy(g, weight[slot], dys.row(row_of_slot[slot]), d);
      });
}

}  // namespace

void route_plan(const Exec& exec, TensorView index, int64_t experts, TensorView offsets, TensorView row_of_slot,
                TensorView slot_of_row, Arena& workspace) {
  constexpr auto kernel = "route_plan";
  const long slots = index.numel();
  require(experts >= 1 && slots <= 0x7fffffff,
          "route_plan: {} slots and {} experts; it takes at least one expert and fewer than 2^31 slots.", slots,
          experts);
  require_vector(index, DType::i32, slots, kernel, "index");
  require_vector(offsets, DType::i32, experts + 1, kernel, "offsets");
  require_vector(row_of_slot, DType::i32, slots, kernel, "row_of_slot");
  require_vector(slot_of_row, DType::i32, slots, kernel, "slot_of_row");
  const ArenaScope scope(workspace);
  const long chunks = (slots + slot_chunk - 1) / slot_chunk;
  auto* histogram = workspace.allocate(DType::i32, {chunks, experts}).as<int32_t>();
  count_slots(exec, index.as<int32_t>(), slots, experts, histogram);
  scan_chunks(exec, chunks, experts, histogram, offsets.as<int32_t>());
  scan_experts(exec, experts, offsets.as<int32_t>());
  place_slots(exec, index.as<int32_t>(), slots, experts, histogram, offsets.as<int32_t>(), row_of_slot.as<int32_t>(),
              slot_of_row.as<int32_t>());
}

void permute_forward(const Exec& exec, TensorView x, TensorView slot_of_row, int64_t k, TensorView xs) {
  constexpr auto kernel = "permute_forward";
  const auto ex = extent_of(x, kernel, "x");
  const auto es = require_matrix(xs, x.dtype, ex.rows * k, ex.cols, kernel, "xs");
  require_vector(slot_of_row, DType::i32, es.rows, kernel, "slot_of_row");
  dispatch_activation(x.dtype, kernel, [&]<class T>() {
    gather_rows(exec, matrix<T>(x, ex), slot_of_row.as<int32_t>(), static_cast<long>(k), matrix<T>(xs, es),
                Pieces(es.rows, es.cols));
  });
}

void permute_backward(const Exec& exec, TensorView dxs, TensorView row_of_slot, int64_t k, TensorView dx,
                      Write dx_mode) {
  constexpr auto kernel = "permute_backward";
  const auto ex = extent_of(dx, kernel, "dx");
  const auto es = require_matrix(dxs, dx.dtype, ex.rows * k, ex.cols, kernel, "dxs");
  require_vector(row_of_slot, DType::i32, es.rows, kernel, "row_of_slot");
  dispatch_activation(dx.dtype, kernel, [&]<class T>() {
    const auto mx = matrix<T>(dx, ex);
    const auto base = dx_mode == Write::accumulate ? mx : Matrix<T>{};
    sum_rows(exec, "kvant::permute_backward", matrix<T>(dxs, es), row_of_slot.as<int32_t>(), nullptr,
             static_cast<long>(k), base, mx, Pieces(ex.rows, ex.cols));
  });
}

void combine_forward(const Exec& exec, TensorView ys, TensorView row_of_slot, TensorView weight, TensorView base,
                     TensorView y) {
  constexpr auto kernel = "combine_forward";
  const auto ey = extent_of(y, kernel, "y");
  const long k = weight.cols();
  const auto es = require_matrix(ys, y.dtype, ey.rows * k, ey.cols, kernel, "ys");
  require_vector(row_of_slot, DType::i32, es.rows, kernel, "row_of_slot");
  require_vector(weight, DType::f32, es.rows, kernel, "weight");
  dispatch_activation(y.dtype, kernel, [&]<class T>() {
    auto mb = Matrix<T>{};
    if (base.data != nullptr) mb = matrix<T>(base, require_matrix(base, y.dtype, ey.rows, ey.cols, kernel, "base"));
    sum_rows(exec, "kvant::combine_forward", matrix<T>(ys, es), row_of_slot.as<int32_t>(), weight.as<float>(), k, mb,
             matrix<T>(y, ey), Pieces(ey.rows, ey.cols));
  });
}

void combine_backward(const Exec& exec, TensorView dy, TensorView ys, TensorView row_of_slot, TensorView weight,
                      TensorView dys, TensorView dweight) {
  constexpr auto kernel = "combine_backward";
  const auto ey = extent_of(dy, kernel, "dy");
  const long k = weight.cols();
  const auto es = require_matrix(ys, dy.dtype, ey.rows * k, ey.cols, kernel, "ys");
  const auto ed = require_matrix(dys, dy.dtype, es.rows, es.cols, kernel, "dys");
  require_vector(row_of_slot, DType::i32, es.rows, kernel, "row_of_slot");
  require_vector(weight, DType::f32, es.rows, kernel, "weight");
  require_vector(dweight, DType::f32, es.rows, kernel, "dweight");
  dispatch_activation(dy.dtype, kernel, [&]<class T>() {
    combine_backward_slots(exec, matrix<T>(dy, ey), matrix<T>(ys, es), row_of_slot.as<int32_t>(), weight.as<float>(), k,
                           matrix<T>(dys, ed), dweight.as<float>(), es.rows, es.cols);
  });
}

}  // namespace kvant
