// QuantizedWeight: codes and scales of a site's weight, made once per value and kept for every product of the step: packed for
// the integer GEMM where a product runs on it, as codes otherwise; and what the gradient of x multiplies with.
#pragma once

#include "kernels/scaled_gemm.hpp"
#include "ops/context.hpp"
#include "ops/matmul_op.hpp"
#include "quant/product.hpp"
#include "quant/recipe.hpp"

#include <memory>
#include <optional>

namespace kvant {
struct MatmulSite;
}

namespace kvant::quant {

class QuantizedWeight {
 public:
  QuantizedWeight(const MatmulSite& site, std::shared_ptr<const Recipe> recipe);

  /// Makes codes and scales if the weight has changed since (its epoch says so). Memory is ctx.state's, asked for once.
  /// `for_backward`: the product of dgrad will be asked for.
  void refresh(StepContext& ctx, bool for_backward);

  /// The right side of the forward product.
  Side forward() const;
  /// The right side of dgrad, as the recipe's residual says. Workspace from ctx.arena.
  Side backward(StepContext& ctx) const;
  /// True where dgrad reads the forward codes without their scale, which the gradient takes before it is quantized.
  bool folds_scale() const;

  const QuantizedMatrix& quantized() const { return q_; }  ///< codes may be empty where the packed forms serve all products
  TensorView master() const;                               ///< f32 [k,n] or [G,k,n]
  TensorView gradient() const;

 private:
  void allocate(StepContext& ctx, bool for_backward);
  Shape shape() const;
  Shape matrix() const;  ///< [k,n] or [G·k,n]
  bool quantized_again() const { return recipe_->weight_residual == Residual::requantized; }
  /// The forward product, or dgrad, reads packed integers.
  bool packs(bool transposed) const;
  /// Steps of the contracted axis that are packed together, as the product's blocks are; 0: all.
  int64_t packed_block(bool transposed) const;
  bool keeps_codes() const;
  void quantize(StepContext& ctx, const QuantizedMatrix& to);
  void quantize_again(StepContext& ctx);
  TensorView transformed(StepContext& ctx) const;

  const MatmulSite& site_;
  std::shared_ptr<const Recipe> recipe_;
  QuantizedMatrix q_, again_;
  std::optional<RangeState> state_;
  PackedOperand forward_, backward_;
  uint64_t epoch_ = 0, backward_epoch_ = 0, recorded_epoch_ = 0;  ///< of values; a parameter's first epoch is 1
};

}  // namespace kvant::quant
