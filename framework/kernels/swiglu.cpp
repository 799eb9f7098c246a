#include "kernels/swiglu.hpp"

#include "kernels/detail/lanes.hpp"
#include "kernels/detail/rows.hpp"
#include "numerics/bf16.hpp"
#include "tensor/dispatch.hpp"

namespace kvant {
using namespace detail;

namespace {

template <class T>
KOKKOS_INLINE_FUNCTION void swiglu_piece(const T* a, const T* b, T* y, long begin, long end) {
  KVANT_INDEPENDENT
  for (long i = begin; i < end; ++i) {
    const float gate = to_float(a[i]);
    y[i] = from_float<T>(gate * fast_sigmoid(gate) * to_float(b[i]));
  }
}

template <class T>
void swiglu_pieces(const Exec& exec, Matrix<T> a, Matrix<T> b, Matrix<T> y, Pieces pieces) {
  Kokkos::parallel_for(
      "kvant::swiglu_forward", Range(exec.space, 0, pieces.count()), KOKKOS_LAMBDA(const long i) {
        const Piece p = pieces[i];
        swiglu_piece(a.row(p.row), b.row(p.row), y.row(p.row), p.begin, p.end);
      });
}

template <class T>
void swiglu_rows(const Exec& exec, Matrix<T> a, Matrix<T> b, Matrix<T> y, long rows, long f, float* absmax) {
  Kokkos::parallel_for(
      "kvant::swiglu_forward_absmax", Range(exec.space, 0, rows), KOKKOS_LAMBDA(const long r) {
        const T* stored = y.row(r);
        swiglu_piece(a.row(r), b.row(r), y.row(r), 0, f);
        absmax[r] = magnitude_of_key(lane_max(f, 0, [=](long i) { return magnitude_key(to_float(stored[i])); }));
      });
}

template <class T>
KOKKOS_INLINE_FUNCTION void swiglu_backward_piece(const T* a, const T* b, const T* dy, T* da, T* db, long begin,
                                                  long end) {
  KVANT_INDEPENDENT
  for (long i = begin; i < end; ++i) {
    const float gate = to_float(a[i]), up = to_float(b[i]), g = to_float(dy[i]);
    const float s = fast_sigmoid(gate);
    const float silu = gate * s;
    da[i] = from_float<T>(g * up * (s + silu * (1.0f - s)));
    db[i] = from_float<T>(g * silu);
  }
}

template <class T>
void swiglu_backward_pieces(const Exec& exec, Matrix<T> a, Matrix<T> b, Matrix<T> dy, Matrix<T> da, Matrix<T> db,
                            Pieces pieces) {
  Kokkos::parallel_for(
      "kvant::swiglu_backward", Range(exec.space, 0, pieces.count()), KOKKOS_LAMBDA(const long i) {
        const Piece p = pieces[i];
        swiglu_backward_piece(a.row(p.row), b.row(p.row), dy.row(p.row), da.row(p.row), db.row(p.row), p.begin, p.end);
      });
}

}  // namespace

void swiglu_forward(const Exec& exec, TensorView a, TensorView b, TensorView y, TensorView row_absmax) {
  constexpr auto kernel = "swiglu_forward";
  const auto ea = extent_of(a, kernel, "a");
  const auto eb = require_matrix(b, a.dtype, ea.rows, ea.cols, kernel, "b");
  const auto ey = require_matrix(y, a.dtype, ea.rows, ea.cols, kernel, "y");
  float* absmax = optional_vector(row_absmax, ea.rows, kernel, "row_absmax");
  dispatch_activation(a.dtype, kernel, [&]<class T>() {
    const auto ma = matrix<T>(a, ea), mb = matrix<T>(b, eb), my = matrix<T>(y, ey);
    if (absmax != nullptr)
      swiglu_rows(exec, ma, mb, my, ea.rows, ea.cols, absmax);
    else
      swiglu_pieces(exec, ma, mb, my, Pieces(ea.rows, ea.cols));
  });
}

void swiglu_backward(const Exec& exec, TensorView a, TensorView b, TensorView dy, TensorView da, TensorView db) {
  constexpr auto kernel = "swiglu_backward";
  const auto ea = extent_of(a, kernel, "a");
  const auto eb = require_matrix(b, a.dtype, ea.rows, ea.cols, kernel, "b");
  const auto edy = require_matrix(dy, a.dtype, ea.rows, ea.cols, kernel, "dy");
  const auto eda = require_matrix(da, a.dtype, ea.rows, ea.cols, kernel, "da");
  const auto edb = require_matrix(db, a.dtype, ea.rows, ea.cols, kernel, "db");
  dispatch_activation(a.dtype, kernel, [&]<class T>() {
    swiglu_backward_pieces(exec, matrix<T>(a, ea), matrix<T>(b, eb), matrix<T>(dy, edy), matrix<T>(da, eda),
                           matrix<T>(db, edb), Pieces(ea.rows, ea.cols));
  });
}

}  // namespace kvant
