#include "kernels/embedding.hpp"

#include "kernels/detail/lanes.hpp"
#include "kernels/detail/rows.hpp"
#include "numerics/bf16.hpp"
#include "tensor/dispatch.hpp"

#include <algorithm>

namespace kvant {

using namespace detail;

namespace {

template <class T>
KOKKOS_INLINE_FUNCTION void table_row_piece(const float* from, T* to, long begin, long end) {
  KVANT_INDEPENDENT
  for (long i = begin; i < end; ++i) to[i] = from_float<T>(from[i]);
}

template <class T>
void look_up(const Exec& exec, const int32_t* ids, const float* table, long vocabulary, Matrix<T> y, Pieces pieces,
             int32_t* bad_ids) {
  Kokkos::parallel_for(
      "kvant::embedding_forward", Range(exec.space, 0, pieces.count()), KOKKOS_LAMBDA(const long i) {
        const Piece p = pieces[i];
        const long id = ids[p.row];
        if (id >= 0 && id < vocabulary) {
          table_row_piece(table + id * pieces.cols, y.row(p.row), p.begin, p.end);
          return;
        }
        for (long j = p.begin; j < p.end; ++j) y.row(p.row)[j] = from_float<T>(0.0f);
        if (p.begin == 0) Kokkos::atomic_add(bad_ids, 1);
      });
}

template <class T>
KOKKOS_INLINE_FUNCTION void add_row_piece(const T* from, float* to, long n) {
  for (long i = 0; i < n; ++i) to[i] += to_float(from[i]);
}

/// A work item owns columns [begin, end) of the whole table and goes through the tokens in order: each element has one
/// writer and one order, without a sort and without workspace. How wide a piece is changes no bit.
template <class T>
void add_rows(const Exec& exec, const int32_t* ids, long tokens, Matrix<T> dy, long vocabulary, long d, long width,
              float* dtable) {
  Kokkos::parallel_for(
      "kvant::embedding_backward", Range(exec.space, 0, (d + width - 1) / width), KOKKOS_LAMBDA(const long piece) {
        const long begin = piece * width, end = begin + width < d ? begin + width : d;
        for (long t = 0; t < tokens; ++t) {
          const long id = ids[t];
          if (id >= 0 && id < vocabulary) add_row_piece(dy.row(t) + begin, dtable + id * d + begin, end - begin);
        }
      });
}

}  // namespace

void embedding_forward(const Exec& exec, TensorView ids, TensorView table, TensorView y, TensorView bad_ids) {
  constexpr auto kernel = "embedding_forward";
  const long tokens = ids.numel();
  require_vector(ids, DType::i32, tokens, kernel, "ids");
  require_vector(table, DType::f32, table.numel(), kernel, "table");
  require_vector(bad_ids, DType::i32, 1, kernel, "bad_ids");
  const auto ey = require_matrix(y, y.dtype, tokens, table.cols(), kernel, "y");
  dispatch_activation(y.dtype, kernel, [&]<class T>() {
    look_up(exec, ids.as<int32_t>(), table.as<float>(), table.rows(), matrix<T>(y, ey), Pieces(ey.rows, ey.cols),
            bad_ids.as<int32_t>());
  });
}

void embedding_backward(const Exec& exec, TensorView ids, TensorView dy, TensorView dtable) {
  constexpr auto kernel = "embedding_backward";
  const long tokens = ids.numel(), d = dtable.cols();
  require_vector(ids, DType::i32, tokens, kernel, "ids");
  require_vector(dtable, DType::f32, dtable.numel(), kernel, "dtable");
  const auto ey = require_matrix(dy, dy.dtype, tokens, d, kernel, "dy");
  // As wide as gives every thread one piece, in whole cache lines; one column each on a GPU.
  const long threads = std::max(1, exec.space.concurrency());
  const long width = exec_is_host ? std::max<long>(16, ((d + threads - 1) / threads + 15) / 16 * 16) : 1;
  dispatch_activation(dy.dtype, kernel, [&]<class T>() {
    add_rows(exec, ids.as<int32_t>(), tokens, matrix<T>(dy, ey), dtable.rows(), d, width, dtable.as<float>());
  });
}

}  // namespace kvant
