#include "kernels/elementwise.hpp"

#include "kernels/detail/lanes.hpp"
#include "kernels/detail/rows.hpp"
#include "numerics/bf16.hpp"
#include "tensor/dispatch.hpp"

#include <cmath>

namespace kvant {
using namespace detail;

namespace {

/// A contiguous tensor is one long row: the fewest pieces, and no remainder per row.
struct Layout {
  long rows, cols;
};

template <class... Views>
Layout common_layout(std::string_view kernel, const TensorView& first, const Views&... rest) {
  for (const TensorView* v : {&first, &rest...})
    require(v->shape == first.shape, "{}: the tensors have shapes {} and {}; they must agree.", kernel,
            to_string(first.shape), to_string(v->shape));
  if ((first.contiguous() && ... && rest.contiguous())) return {1, static_cast<long>(first.numel())};
  return {static_cast<long>(first.rows()), static_cast<long>(first.cols())};
}

template <class T>
Matrix<T> elements(const TensorView& x, const Layout& layout, std::string_view kernel) {
  if (layout.rows == 1) return {x.as<T>(), layout.cols};
  return {x.as<T>(), extent_of(x, kernel, "a tensor").stride};
}

template <class A, class B, class Y>
KOKKOS_INLINE_FUNCTION void add_piece(const A* a, const B* b, Y* y, long begin, long end) {
  KVANT_INDEPENDENT
  for (long i = begin; i < end; ++i) y[i] = from_float<Y>(to_float(a[i]) + to_float(b[i]));
}

template <class A, class B, class Y>
void add_pieces(const Exec& exec, Matrix<A> a, Matrix<B> b, Matrix<Y> y, Pieces pieces) {
  Kokkos::parallel_for(
      "kvant::add", Range(exec.space, 0, pieces.count()), KOKKOS_LAMBDA(const long i) {
        const Piece p = pieces[i];
        add_piece(a.row(p.row), b.row(p.row), y.row(p.row), p.begin, p.end);
      });
}

template <class X, class Y>
KOKKOS_INLINE_FUNCTION void copy_piece(const X* x, Y* y, long begin, long end) {
  KVANT_INDEPENDENT
  for (long i = begin; i < end; ++i) y[i] = from_float<Y>(to_float(x[i]));
}

template <class X, class Y>
void copy_pieces(const Exec& exec, Matrix<X> x, Matrix<Y> y, Pieces pieces) {
  Kokkos::parallel_for(
      "kvant::copy", Range(exec.space, 0, pieces.count()), KOKKOS_LAMBDA(const long i) {
        const Piece p = pieces[i];
        copy_piece(x.row(p.row), y.row(p.row), p.begin, p.end);
      });
}

template <class T>
void fill_pieces(const Exec& exec, Matrix<T> y, T value, Pieces pieces) {
  Kokkos::parallel_for(
      "kvant::fill", Range(exec.space, 0, pieces.count()), KOKKOS_LAMBDA(const long i) {
        const Piece p = pieces[i];
        T* row = y.row(p.row);
        for (long j = p.begin; j < p.end; ++j) row[j] = value;
      });
}

template <class T>
KOKKOS_INLINE_FUNCTION void scale_piece(T* y, float factor, long begin, long end) {
  for (long i = begin; i < end; ++i) y[i] = from_float<T>(to_float(y[i]) * factor);
}

template <class T>
void scale_pieces(const Exec& exec, Matrix<T> y, float factor, Pieces pieces) {
  Kokkos::parallel_for(
      "kvant::scale", Range(exec.space, 0, pieces.count()), KOKKOS_LAMBDA(const long i) {
        const Piece p = pieces[i];
        scale_piece(y.row(p.row), factor, p.begin, p.end);
      });
}

}  // namespace

void add(const Exec& exec, TensorView a, TensorView b, TensorView y) {
  const auto l = common_layout("add", a, b, y);
  dispatch_activation(a.dtype, "add", [&]<class A>() {
    dispatch_activation(b.dtype, "add", [&]<class B>() {
      dispatch_activation(y.dtype, "add", [&]<class Y>() {
        add_pieces(exec, elements<A>(a, l, "add"), elements<B>(b, l, "add"), elements<Y>(y, l, "add"),
                   Pieces(l.rows, l.cols));
      });
    });
  });
}

void accumulate(const Exec& exec, TensorView x, TensorView y) { add(exec, y, x, y); }

void copy(const Exec& exec, TensorView x, TensorView y) {
  const auto l = common_layout("copy", x, y);
  dispatch_activation(x.dtype, "copy", [&]<class X>() {
    dispatch_activation(y.dtype, "copy", [&]<class Y>() {
      copy_pieces(exec, elements<X>(x, l, "copy"), elements<Y>(y, l, "copy"), Pieces(l.rows, l.cols));
    });
  });
}

void fill(const Exec& exec, TensorView y, float value) {
  const auto l = common_layout("fill", y);
  const Pieces pieces(l.rows, l.cols);
  if (y.dtype == DType::i32) {
    require(std::trunc(value) == value && std::fabs(value) <= 0x1p24f,
            "fill: an int32 tensor was to be filled with {}, which is not an integer of at most 24 bits.", value);
    fill_pieces(exec, elements<int32_t>(y, l, "fill"), static_cast<int32_t>(value), pieces);
    return;
  }
  dispatch_activation(y.dtype, "fill",
                      [&]<class T>() { fill_pieces(exec, elements<T>(y, l, "fill"), from_float<T>(value), pieces); });
}

void scale_inplace(const Exec& exec, TensorView y, float factor) {
  const auto l = common_layout("scale_inplace", y);
  dispatch_activation(y.dtype, "scale_inplace", [&]<class T>() {
    scale_pieces(exec, elements<T>(y, l, "scale_inplace"), factor, Pieces(l.rows, l.cols));
  });
}

}  // namespace kvant
