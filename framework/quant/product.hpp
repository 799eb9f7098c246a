// Product: what a quantized matmul multiplies. Each side is a plain tensor or codes with scales; how they run was decided with
// the recipe (recipe.hpp, product_of).
#pragma once

#include "kernels/scaled_gemm.hpp"
#include "ops/context.hpp"
#include "ops/matmul_op.hpp"
#include "quant/quantized_matrix.hpp"

namespace kvant::quant {

struct Side {
  TensorView plain;                  ///< f32 or bf16, where there are no codes
  QuantizedMatrix quantized;         ///< codes [R,C]; of experts [G·rows,C]
  const OperandRecipe* recipe = nullptr;  ///< of the codes; null: plain
  bool bare = false;                 ///< the scale was folded into the other side: codes count as they are
  int contracted = 1;                ///< axis of the matrix that is summed over
  int64_t groups = 0;                ///< a weight of experts: its matrices
  const PackedOperand* packed = nullptr;  ///< of a right side whose codes the integer product reads packed

  Shape matrix() const { return recipe == nullptr ? plain.shape : quantized.codes.shape; }
};

/// c (+)= left · right, summed over the contracted axis of each. `offsets` empty: dense. Else a left side contracted along
/// axis 1 has rows in groups and the right one is a weight of experts; along axis 0 both have, and c is [G,k,n].
void multiply(StepContext& ctx, Product product, const Side& left, const Side& right, const TensorView& offsets, const TensorView& c, Write mode,
              Accumulation accumulation = Accumulation::f32);

}  // namespace kvant::quant
