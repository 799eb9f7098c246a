// TensorView: a pointer with type, shape and strides. It owns nothing, costs nothing to copy and crosses plugin borders.
#pragma once

#include "base/error.hpp"
#include "tensor/dtype.hpp"

#include <array>
#include <cstdint>
#include <initializer_list>
#include <string>
#include <vector>

namespace kvant {

enum class MemorySpace : uint8_t { host, device };

inline constexpr int max_rank = 4;

struct Shape {
  std::array<int64_t, max_rank> dim{};
  int rank = 0;

  Shape() = default;
  Shape(std::initializer_list<int64_t> dims);
  int64_t operator[](int i) const { return dim[static_cast<std::size_t>(i)]; }
  int64_t numel() const;
  bool operator==(const Shape&) const = default;
};

std::string to_string(const Shape& shape);

struct TensorView {
  void* data = nullptr;
  DType dtype = DType::f32;
  MemorySpace space = MemorySpace::host;
  Shape shape;
  std::array<int64_t, max_rank> stride{};  ///< in elements; row-major (last axis 1) unless somebody sliced

  int64_t numel() const { return shape.numel(); }
  std::size_t bytes() const { return static_cast<std::size_t>(numel()) * size_of(dtype); }
  bool empty() const { return data == nullptr || numel() == 0; }
  bool contiguous() const;

  /// Product of all axes but the last, and the last: how a row-wise kernel sees the tensor.
  int64_t rows() const;
  int64_t cols() const;

  /// Typed pointer; throws when T is not the stored type.
  template <class T>
  T* as() const {
    require(DTypeOf<T>::value == dtype, "A tensor of {} was read as {}.", name_of(dtype), name_of(DTypeOf<T>::value));
    return static_cast<T*>(data);
  }

  /// Same data, other shape with the same number of elements; the view must be contiguous.
  TensorView reshaped(const Shape& other) const;
  /// Rows [begin, begin + count) of axis 0.
  TensorView slice_rows(int64_t begin, int64_t count) const;
  /// Columns [begin, begin + count) of the last axis: strided unless all are taken.
  TensorView slice_cols(int64_t begin, int64_t count) const;
};

/// A contiguous row-major view.
TensorView make_view(void* data, DType dtype, const Shape& shape, MemorySpace space = MemorySpace::host);

}  // namespace kvant
