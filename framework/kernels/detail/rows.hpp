// How row-wise kernels see a tensor: a base pointer and a row stride; and how they state what they were given.
#pragma once

#include "base/kokkos.hpp"
#include "tensor/tensor.hpp"

#include <string_view>

namespace kvant::detail {

struct Extent {
  long rows = 0, cols = 0, stride = 0;
};

/// All axes but the last become rows with one stride; throws where the tensor cannot be seen so.
inline Extent extent_of(const TensorView& x, std::string_view kernel, std::string_view name) {
  const Extent e{x.rows(), x.cols(),
                 x.shape.rank >= 2 ? x.stride[static_cast<std::size_t>(x.shape.rank - 2)] : x.cols()};
  bool fits = x.shape.rank >= 1 && (e.cols <= 1 || x.stride[static_cast<std::size_t>(x.shape.rank - 1)] == 1);
  for (int i = 0; i + 2 < x.shape.rank; ++i)
    fits = fits && (x.shape[i] <= 1 || x.stride[static_cast<std::size_t>(i)] ==
                                           x.stride[static_cast<std::size_t>(i) + 1] * x.shape[i + 1]);
  require(fits, "{}: {} of shape {} must have adjacent columns and rows at one distance.", kernel, name,
          to_string(x.shape));
  return e;
}

/// A float32, bfloat16 or int32 tensor whose elements are adjacent, of exactly `count` elements.
inline void require_vector(const TensorView& x, DType dtype, int64_t count, std::string_view kernel,
                           std::string_view name) {
  require(x.dtype == dtype && x.numel() == count && x.contiguous(),
          "{}: {} must be {} contiguous elements of {}; it is {} of shape {}.", kernel, name, count, name_of(dtype),
          name_of(x.dtype), to_string(x.shape));
}

/// Rows and columns as stated, type as stated.
inline Extent require_matrix(const TensorView& x, DType dtype, long rows, long cols, std::string_view kernel,
                             std::string_view name) {
  require(x.dtype == dtype && x.rows() == rows && x.cols() == cols, "{}: {} must be {} [{}, {}]; it is {} of shape {}.",
          kernel, name, name_of(dtype), rows, cols, name_of(x.dtype), to_string(x.shape));
  return extent_of(x, kernel, name);
}

/// float* of an optional float32 vector: null when it was not asked for.
inline float* optional_vector(const TensorView& x, int64_t count, std::string_view kernel, std::string_view name) {
  if (x.data == nullptr) return nullptr;
  require_vector(x, DType::f32, count, kernel, name);
  return x.as<float>();
}

template <class T>
struct Matrix {
  T* data = nullptr;
  long stride = 0;
  KOKKOS_FORCEINLINE_FUNCTION T* row(long r) const { return data + r * stride; }
};

template <class T>
Matrix<T> matrix(const TensorView& x, const Extent& e) {
  return {x.as<T>(), e.stride};
}

/// Columns that one work item of an elementwise kernel treats: long enough for vectors on a processor, single (so that
/// neighbours are adjacent in memory) on a GPU. Such kernels compute each element alone, so that the number changes no
/// bit.
inline constexpr long column_chunk = exec_is_host ? 1024 : 1;

/// Work item i of an elementwise kernel over rows x cols.
struct Piece {
  long row, begin, end;
};
struct Pieces {
  long rows = 0, cols = 0, per_row = 0;
  Pieces(long r, long c) : rows(r), cols(c), per_row((c + column_chunk - 1) / column_chunk) {}
  long count() const { return rows * per_row; }
  KOKKOS_FORCEINLINE_FUNCTION Piece operator[](long i) const {
    const long row = i / per_row, begin = (i - row * per_row) * column_chunk;
    return {row, begin, begin + column_chunk < cols ? begin + column_chunk : cols};
  }
};

}  // namespace kvant::detail
