// What a layer may ask about the tokens it is given: their number, places and documents.
#pragma once

#include "tensor/tensor.hpp"

#include <cstdint>

namespace kvant::nn {

/// B rows of S tokens, T = B·S, row-major everywhere.
struct Sequence {
  int64_t batch = 0, seq = 0;
  TensorView positions;  ///< i32 [B,S]: place in the document
  TensorView segments;   ///< i32 [B,S]: number of the document, 0 = padding
  TensorView rope_frequency;  ///< f32 [dr/2]: radians per place

  int64_t tokens() const { return batch * seq; }
};

}  // namespace kvant::nn
