// Recipe: a rule resolved for one site: for each operand of the three products the format, the calibration and what
// shares a scale.
#pragma once

#include "kernels/quantize.hpp"
#include "quant/calibrator.hpp"
#include "quant/codec.hpp"

#include <string>

namespace kvant::quant {

/// What has a scale of its own.
enum class Granularity : uint8_t {
  per_tensor,
  per_row,            ///< each token (row of x or of the gradient)
  per_column,         ///< each output channel; for experts: shared by all of them, as in the reference
  per_expert_column,  ///< each output channel of each expert
};
std::string_view name_of(Granularity granularity);

struct OperandRecipe {
  std::string qtype;
  const Codec* codec = nullptr;
  Calibration calibration;
  Granularity granularity = Granularity::per_row;
  ScaleLaw law;

  /// "int8 absmax per_row …": equal texts make equal codes of equal tensors.
  std::string identity() const;
};

/// y = q(x)·q(w); dx = q(g·s_w)·q(w)ᵀ; dw = q(x)ᵀ·q(g·s_x): two different tensors are quantized for the two backward
/// arms.
struct Recipe {
  OperandRecipe act, weight;  ///< forward; both backward arms read these codes
  OperandRecipe grad_input;   ///< g·s_w, for dx
  OperandRecipe grad_weight;  ///< g·s_x, for dw
};

}  // namespace kvant::quant
