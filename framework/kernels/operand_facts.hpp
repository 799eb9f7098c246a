// What quantization did to an operand: for metrics by site, on request.
#pragma once

#include "kernels/quantize_tiles.hpp"

namespace kvant {

struct Exec;

struct OperandFacts {
  float largest = 0;      ///< max |v|
  float scale = 0;        ///< largest scale
  int64_t elements = 0;
  int64_t nonzero = 0;    ///< of v
  int64_t zeroed = 0;     ///< of those, how many have the value 0 in codes
  int64_t saturated = 0;  ///< values beyond the largest code
};

struct OperandFactsJob {
  TensorView values;      ///< f32 [R,C], dense: what was quantized
  TensorView decoded;     ///< f32 [R,C]: codes as numbers, without scale
  TensorView scale;       ///< f32
  TensorView zero_point;  ///< i32 like scale, or empty
  TileShape tile{};       ///< of the matrix, unless there are offsets
  TensorView offsets;     ///< i32 [G+1], or empty: scales [G,C] by groups of rows
  float largest_code = 0;
  TensorView workspace;   ///< i32 [5]
};

/// Waits for the result.
OperandFacts operand_facts(const Exec& exec, const OperandFactsJob& job);

}  // namespace kvant
