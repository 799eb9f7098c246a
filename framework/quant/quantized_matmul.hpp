// QuantizedMatmul: the op that a plan binds. Forward and both backward arms run on codes:
//   y  = (q(x)·q(w) · s_x[r]) · s_w[j]
//   dx = q(g·s_w)·q(w)ᵀ · s_row[r]        the residual's scale is folded into g before g is quantized, by row …
//   dw = q(x)ᵀ·q(g·s_x) · s_column[j]     … and by column: two different tensors (maxtext-semantics 1.4, 3.4; Qwix
//   dot_general_qt)
// So it is where rows and columns have the scales. What else a recipe may say (tiles, zero points, operands that stay plain, residuals,
// ranges from earlier steps, transforms) and which products then run on values is docs/numerics.md; product_of (recipe.hpp)
// decides, for the table and for the op alike. Rows of experts are filled up to whole blocks where blocks lie along them.
// Codes of x are made by prepare() and serve every site that reads x, forward and backward. Codes of w are made and
// packed once per value of the weight and serve every micro-batch. Where a calibration clips, a dense product's
// gradients are zero beyond its range (straight-through); an expert product's are not masked.
#pragma once

#include "ops/matmul_op.hpp"
#include "quant/recipe.hpp"

#include <memory>

namespace kvant {
struct MatmulSite;
}

namespace kvant::quant {

/// `act_key` identifies recipe.act among all of a plan: ops with equal keys share payloads. The op keeps a pointer to
/// the site.
std::unique_ptr<MatmulOp> make_quantized_matmul(const MatmulSite& site, std::shared_ptr<const Recipe> recipe,
                                                uint32_t act_key);

}  // namespace kvant::quant
