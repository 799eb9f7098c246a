// Products of recorded operands in Kvant's kernels, dispatched as the reference does (qwix-semantics 5.1): on codes with the
// scales behind the sum, block by block of the contracted axes, or on decoded values.
#pragma once

#include "quant/detail/recorded_operand.hpp"

#include <string>
#include <vector>

namespace kvant::quant::detail {

/// JAX's dimension numbers: axes of the left and of the right operand that are contracted with each other, and that go
/// together as a batch. The result has [batch, other axes of the left operand, other axes of the right one].
struct DotAxes {
  std::vector<int> left_contract, right_contract, left_batch, right_batch;
  bool operator==(const DotAxes&) const = default;
};
/// [[left contract, right contract], [left batch, right batch]], checked against the shapes.
DotAxes dot_axes_from(const nlohmann::json& numbers, const Shape& left, const Shape& right);

/// Throws UsageError where the product has more axes than a tensor here can have.
Shape product_shape(const Shape& left, const Shape& right, const DotAxes& axes);

struct DotResult {
  DType type = DType::f32;
  std::vector<float> values;
  std::vector<double> sizes;  ///< Σ|a||b| of each, in double, of the values that the operands stand for
  bool every_bit = false;     ///< integer sums and scales in float32: any right implementation has the same bits
  double limit = 0;           ///< of |difference| / Σ|a||b|
};

/// The type that a product of these has: float32 where one of them is.
DType result_type(const Side& left, const Side& right);

DotResult multiply(Recording& r, const Side& left, const Side& right, const DotAxes& axes, DType type);

/// [R,K] by [G,K,N], rows of the left operand belonging to groups: [R,N]. `sizes`: rows of each group; those past the last
/// one give zero.
DotResult multiply_groups(Recording& r, const Side& left, const Side& right, const std::vector<int32_t>& sizes, DType type);
/// [R,K] by [R,N], contracted within each group: [G,K,N].
DotResult contract_groups(Recording& r, const Side& left, const Side& right, const std::vector<int32_t>& sizes, DType type);

/// Compares a product with a recorded tensor of this shape.
void compare_product(Recording& r, const std::string& tensor, const Shape& shape, const DotResult& product);

}  // namespace kvant::quant::detail
