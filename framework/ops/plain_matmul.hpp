// The unquantized op: f32 product of the operand and the weight, the weight rounded to the site's compute type first when that
// is bfloat16 (MaxText: kernels are cast to dtype before the product).
#pragma once

#include "ops/matmul_op.hpp"

#include <memory>

namespace kvant {

struct MatmulSite;

/// The op keeps a pointer to the site (its weight and shape).
std::unique_ptr<MatmulOp> make_plain_matmul(const MatmulSite& site);

}  // namespace kvant
