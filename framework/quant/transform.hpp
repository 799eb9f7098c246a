// The transform of an arm's operands, both along the contracted axis, with signs by (seed, site, arm).
#pragma once

#include "ops/matmul_op.hpp"
#include "quant/recipe.hpp"

namespace kvant {
struct MatmulSite;
}

namespace kvant::quant {

/// x itself where there is no transform, else f32 in ctx.arena.
TensorView transform(StepContext& ctx, Transform kind, const MatmulSite& site, Arm arm, const TensorView& x, int axis);

}  // namespace kvant::quant
