#include "kernels/detail/gemm_problem.hpp"

#include <limits>

namespace kvant::detail {

Matrix as_matrix(const TensorView& x, const char* operation, const char* name) {
  const int rank = x.shape.rank;
  require(rank >= 2, "{}: {} must have at least two axes; its shape is {}.", operation, name, to_string(x.shape));
  int64_t rows = 1;  // not x.rows(), which is 0 when there are no columns
  for (int i = 0; i + 1 < rank; ++i) rows *= x.shape[i];
  Matrix m{x.data, x.dtype, rows, x.cols(), x.stride[static_cast<std::size_t>(rank - 2)]};
  require(m.cols <= 1 || x.stride[static_cast<std::size_t>(rank - 1)] == 1,
          "{}: the last axis of {} must be dense; its stride is {}.", operation, name, x.stride[static_cast<std::size_t>(rank - 1)]);
  for (int i = 0; i + 2 < rank; ++i) {
    const auto axis = static_cast<std::size_t>(i);
    require(x.shape[i] == 1 || x.stride[axis] == x.stride[axis + 1] * x.shape[i + 1],
            "{}: the rows of {} (shape {}) must be evenly spaced; axis {} has stride {} where {} was expected.", operation, name,
            to_string(x.shape), i, x.stride[axis], x.stride[axis + 1] * x.shape[i + 1]);
  }
  if (m.rows <= 1 && m.ld < m.cols) m.ld = m.cols;
  require(m.ld >= m.cols || m.rows * m.cols == 0, "{}: the rows of {} overlap: {} columns, {} elements apart.", operation, name,
          m.cols, m.ld);
  constexpr int64_t limit = std::numeric_limits<int32_t>::max() / 4;
  require(m.rows <= limit && m.cols <= limit, "{}: {} of shape {} is larger than {} in one direction.", operation, name,
          to_string(x.shape), limit);
  return m;
}

Matrix as_group_matrix(const TensorView& x, const char* operation, const char* name) {
  require(x.shape.rank == 3, "{}: {} must have three axes (group, rows, columns); its shape is {}.", operation, name,
          to_string(x.shape));
  TensorView one = x;
  one.shape = Shape{x.shape[1], x.shape[2]};
  one.stride = {x.stride[1], x.stride[2]};
  return as_matrix(one, operation, name);
}

void require_float(DType type, const char* operation, const char* name) {
  require(type == DType::f32 || type == DType::bf16, "{}: {} must be float32 or bfloat16; it is {}.", operation, name,
          name_of(type));
}

const int32_t* group_offsets(const TensorView& offsets, int64_t groups, const char* operation) {
  require(offsets.dtype == DType::i32 && offsets.contiguous() && offsets.numel() == groups + 1,
          "{}: the offsets of {} groups must be {} dense int32 numbers; they are {} of type {}.", operation, groups, groups + 1,
          offsets.numel(), name_of(offsets.dtype));
  return offsets.as<int32_t>();
}

}  // namespace kvant::detail
