#include "tensor/tensor.hpp"

namespace kvant {

Shape::Shape(std::initializer_list<int64_t> dims) {
  require(dims.size() <= max_rank, "A shape has at most {} axes; {} were given.", max_rank, dims.size());
  for (const int64_t d : dims) dim[static_cast<std::size_t>(rank++)] = d;
}

int64_t Shape::numel() const {
  int64_t n = 1;
  for (int i = 0; i < rank; ++i) n *= (*this)[i];
  return n;
}

std::string to_string(const Shape& shape) {
  std::string s = "[";
  for (int i = 0; i < shape.rank; ++i) s += (i ? ", " : "") + std::to_string(shape[i]);
  return s + "]";
}

TensorView make_view(void* data, DType dtype, const Shape& shape, MemorySpace space) {
  TensorView v{data, dtype, space, shape, {}};
  int64_t step = 1;
  for (int i = shape.rank - 1; i >= 0; --i) {
    v.stride[static_cast<std::size_t>(i)] = step;
    step *= shape[i];
  }
  return v;
}

bool TensorView::contiguous() const {
  int64_t step = 1;
  for (int i = shape.rank - 1; i >= 0; --i) {
    if (shape[i] != 1 && stride[static_cast<std::size_t>(i)] != step) return false;
    step *= shape[i];
  }
  return true;
}

int64_t TensorView::rows() const { return shape.rank == 0 ? 1 : numel() / std::max<int64_t>(cols(), 1); }

int64_t TensorView::cols() const { return shape.rank == 0 ? 1 : shape[shape.rank - 1]; }

TensorView TensorView::reshaped(const Shape& other) const {
  require(contiguous(), "A strided tensor of shape {} cannot be reshaped to {}.", to_string(shape), to_string(other));
  require(other.numel() == numel(), "A tensor of shape {} cannot be reshaped to {}.", to_string(shape), to_string(other));
  return make_view(data, dtype, other, space);
}

TensorView TensorView::slice_rows(int64_t begin, int64_t count) const {
  require(shape.rank >= 1 && begin >= 0 && count >= 0 && begin + count <= shape[0], "Rows {}..{} of a tensor of shape {} were asked for.",
          begin, begin + count, to_string(shape));
  TensorView v = *this;
  v.data = static_cast<char*>(data) + static_cast<std::size_t>(begin * stride[0]) * size_of(dtype);
  v.shape.dim[0] = count;
  return v;
}

TensorView TensorView::slice_cols(int64_t begin, int64_t count) const {
  require(shape.rank >= 1 && begin >= 0 && count >= 0 && begin + count <= cols(), "Columns {}..{} of a tensor of shape {} were asked for.",
          begin, begin + count, to_string(shape));
  TensorView v = *this;
  const auto last = static_cast<std::size_t>(shape.rank - 1);
  v.data = static_cast<char*>(data) + static_cast<std::size_t>(begin * stride[last]) * size_of(dtype);
  v.shape.dim[last] = count;
  return v;
}

}  // namespace kvant
