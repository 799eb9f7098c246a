#include "kernels/reduce.hpp"

#include "kernels/detail/lanes.hpp"
#include "kernels/detail/rows.hpp"
#include "numerics/bf16.hpp"
#include "tensor/dispatch.hpp"

namespace kvant {

using namespace detail;

namespace {

// Elements of a row that one work item reduces: part of the definition of a sum, so the same on every machine.
constexpr long reduce_chunk = 8192;

/// A tensor as chunks; a contiguous one is a single row.
struct Chunks {
  long rows, cols, stride, per_row;

  Chunks(const TensorView& x, std::string_view kernel) : rows(1), cols(x.numel()), stride(0) {
    if (!x.contiguous()) {
      const Extent e = extent_of(x, kernel, "x");
      rows = e.rows, cols = e.cols, stride = e.stride;
    }
    per_row = (cols + reduce_chunk - 1) / reduce_chunk;
  }
  long count() const { return rows * per_row; }
  KOKKOS_FORCEINLINE_FUNCTION long begin(long i) const { return i / per_row * stride + i % per_row * reduce_chunk; }
  KOKKOS_FORCEINLINE_FUNCTION long size(long i) const {
    const long left = cols - i % per_row * reduce_chunk;
    return left < reduce_chunk ? left : reduce_chunk;
  }
};

struct Plain {
  KOKKOS_FORCEINLINE_FUNCTION double operator()(float x) const { return static_cast<double>(x); }
};
struct Square {
  KOKKOS_FORCEINLINE_FUNCTION double operator()(float x) const {
    return static_cast<double>(x) * static_cast<double>(x);
  }
};

template <class Term, class T>
void partial_sums(const Exec& exec, const T* x, Chunks chunks, double* partial) {
  Kokkos::parallel_for(
      "kvant::reduce_sum", Range(exec.space, 0, chunks.count()), KOKKOS_LAMBDA(const long c) {
        const T* from = x + chunks.begin(c);
        partial[c] = lane_sum_as<double>(chunks.size(c), [=](long i) { return Term{}(to_float(from[i])); });
      });
}

void add_partial_sums(const Exec& exec, const double* partial, long count, float* out) {
  Kokkos::parallel_for(
      "kvant::reduce_sum_finish", Range(exec.space, 0, 1), KOKKOS_LAMBDA(const long) {
        *out = static_cast<float>(lane_sum_as<double>(count, [=](long i) { return partial[i]; }));
      });
}

struct MagnitudeKey {
  static constexpr int32_t lowest = 0;
  KOKKOS_FORCEINLINE_FUNCTION int32_t operator()(float x) const { return magnitude_key(x); }
  static KOKKOS_FORCEINLINE_FUNCTION float value(int32_t key) { return magnitude_of_key(key); }
};
struct OrderKey {
  static constexpr int32_t lowest = lowest_order_key;
  KOKKOS_FORCEINLINE_FUNCTION int32_t operator()(float x) const { return order_key(x); }
  static KOKKOS_FORCEINLINE_FUNCTION float value(int32_t key) { return value_of_order_key(key); }
};

template <class Key, class T>
void partial_maxima(const Exec& exec, const T* x, Chunks chunks, int32_t* partial) {
  Kokkos::parallel_for(
      "kvant::reduce_max", Range(exec.space, 0, chunks.count()), KOKKOS_LAMBDA(const long c) {
        const T* from = x + chunks.begin(c);
        partial[c] = lane_max(chunks.size(c), Key::lowest, [=](long i) { return Key{}(to_float(from[i])); });
      });
}

template <class Key>
void largest_partial(const Exec& exec, const int32_t* partial, long count, float* out) {
  Kokkos::parallel_for(
      "kvant::reduce_max_finish", Range(exec.space, 0, 1), KOKKOS_LAMBDA(const long) {
        *out = Key::value(lane_max(count, Key::lowest, [=](long i) { return partial[i]; }));
      });
}

template <class T>
void count_chunks(const Exec& exec, const T* x, Chunks chunks, int32_t* count) {
  Kokkos::parallel_for(
      "kvant::count_nonfinite", Range(exec.space, 0, chunks.count()), KOKKOS_LAMBDA(const long c) {
        const T* from = x + chunks.begin(c);
        const auto bad =
            lane_sum_as<int32_t>(chunks.size(c), [=](long i) { return is_finite(to_float(from[i])) ? 0 : 1; });
        if (bad > 0) Kokkos::atomic_add(count, bad);
      });
}

template <class Term>
void sum_of(const Exec& exec, const TensorView& x, const TensorView& out, Arena& workspace, std::string_view kernel) {
  require_vector(out, DType::f32, 1, kernel, "out");
  const Chunks chunks(x, kernel);
  const ArenaScope scope(workspace);
  auto* partial =
      static_cast<double*>(workspace.allocate_bytes(static_cast<std::size_t>(chunks.count()) * sizeof(double)));
  dispatch_activation(x.dtype, kernel, [&]<class T>() { partial_sums<Term>(exec, x.as<T>(), chunks, partial); });
  add_partial_sums(exec, partial, chunks.count(), out.as<float>());
}

template <class Key>
void maximum_of(const Exec& exec, const TensorView& x, const TensorView& out, Arena& workspace,
                std::string_view kernel) {
  require_vector(out, DType::f32, 1, kernel, "out");
  const Chunks chunks(x, kernel);
  const ArenaScope scope(workspace);
  auto* partial =
      static_cast<int32_t*>(workspace.allocate_bytes(static_cast<std::size_t>(chunks.count()) * sizeof(int32_t)));
  dispatch_activation(x.dtype, kernel, [&]<class T>() { partial_maxima<Key>(exec, x.as<T>(), chunks, partial); });
  largest_partial<Key>(exec, partial, chunks.count(), out.as<float>());
}

void find_clip_factor(const Exec& exec, const float* squares, float max_norm, float* norm, float* factor) {
  Kokkos::parallel_for(
      "kvant::clip_factor", Range(exec.space, 0, 1), KOKKOS_LAMBDA(const long) {
        const float n = square_root(*squares);
        *norm = n;
        if (!is_finite(n))
          *factor = 0.0f;
        else
          *factor = max_norm > 0.0f && n > max_norm ? max_norm / n : 1.0f;
      });
}

}  // namespace

void sum(const Exec& exec, TensorView x, TensorView out, Arena& workspace) {
  sum_of<Plain>(exec, x, out, workspace, "sum");
}

void sum_squares(const Exec& exec, TensorView x, TensorView out, Arena& workspace) {
  sum_of<Square>(exec, x, out, workspace, "sum_squares");
}

void absmax(const Exec& exec, TensorView x, TensorView out, Arena& workspace) {
  maximum_of<MagnitudeKey>(exec, x, out, workspace, "absmax");
}

void maximum(const Exec& exec, TensorView x, TensorView out, Arena& workspace) {
  maximum_of<OrderKey>(exec, x, out, workspace, "maximum");
}

void count_nonfinite(const Exec& exec, TensorView x, TensorView count) {
  constexpr auto kernel = "count_nonfinite";
  require_vector(count, DType::i32, 1, kernel, "count");
  const Chunks chunks(x, kernel);
  dispatch_activation(x.dtype, kernel, [&]<class T>() { count_chunks(exec, x.as<T>(), chunks, count.as<int32_t>()); });
}

void clip_factor(const Exec& exec, TensorView sum_of_squares, float max_norm, TensorView norm, TensorView factor) {
  constexpr auto kernel = "clip_factor";
  require_vector(sum_of_squares, DType::f32, 1, kernel, "sum_of_squares");
  require_vector(norm, DType::f32, 1, kernel, "norm");
  require_vector(factor, DType::f32, 1, kernel, "factor");
  require(max_norm >= 0.0f, "clip_factor: the largest norm is {}; it must be positive, or 0 for no clipping.",
          max_norm);
  find_clip_factor(exec, sum_of_squares.as<float>(), max_norm, norm.as<float>(), factor.as<float>());
}

}  // namespace kvant
