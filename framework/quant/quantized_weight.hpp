// QuantizedWeight: codes and scales of a site's weight, made once per value and kept for every product of the step:
// packed for the integer GEMM where all its products are integer, as codes otherwise.
#pragma once

#include "kernels/scaled_gemm.hpp"
#include "ops/context.hpp"
#include "ops/matmul_op.hpp"
#include "quant/recipe.hpp"

#include <memory>

namespace kvant {
struct MatmulSite;
}

namespace kvant::quant {

class QuantizedWeight {
 public:
  QuantizedWeight(const MatmulSite& site, std::shared_ptr<const Recipe> recipe);

  /// Makes codes and scales if the weight has changed since (its epoch says so). Memory is ctx.state's, asked for once.
  /// `for_backward`: the transposed product will be asked for.
  void refresh(StepContext& ctx, bool for_backward);

  /// As the right-hand side of the forward product, or of dgrad: the transposed matrix, without scale (it was folded
  /// into the gradient). A format that the GEMM does not know is decoded into ctx.arena.
  ScaledOperand operand(StepContext& ctx, bool transposed) const;

  const TensorView& scale() const { return scale_; }  ///< f32 [n], [G,n] or [1]
  const TensorView& clip() const {
    return clip_;
  }  ///< like scale: beyond which a value was clipped; empty where none is
  TensorView master() const;  ///< f32 [k,n] or [G,k,n]
  TensorView gradient() const;

 private:
  void allocate(StepContext& ctx, bool for_backward);
  Shape shape() const;
  /// The forward product, or dgrad, multiplies integers.
  bool packs(bool transposed) const;
  bool keeps_codes() const { return !packs(false) || !packs(true); }

  const MatmulSite& site_;
  std::shared_ptr<const Recipe> recipe_;
  TensorView codes_;  ///< in ctx.state, or empty where the packed forms serve all products
  TensorView scale_, clip_;
  PackedOperand forward_, backward_;
  uint64_t epoch_ = 0, backward_epoch_ = 0;  ///< values that were packed; a parameter's first epoch is 1
};

}  // namespace kvant::quant
