// Recipe: a rule resolved for one site: for each operand of the three products the format, the calibration, what shares
// a scale and how it is rounded; what the backward arms multiply with; transforms; sums.
#pragma once

#include "kernels/quantize.hpp"
#include "kernels/scaled_gemm.hpp"
#include "numerics/noise.hpp"
#include "ops/matmul_op.hpp"
#include "quant/calibrator.hpp"
#include "quant/codec.hpp"

#include <optional>
#include <string>
#include <vector>

namespace kvant::quant {

/// What has a scale of its own, before tiles divide it.
enum class Granularity : uint8_t {
  per_tensor,
  per_row,            ///< each token (row of x or of the gradient)
  per_column,         ///< each output channel; for experts: shared by all of them, as in the reference
  per_expert_column,  ///< each output channel of each expert
};
/// Where a range comes from.
enum class Scaling : uint8_t {
  measured,      ///< of the tensor itself
  constant,      ///< written in the configuration
  delayed,       ///< of a history of earlier steps
  running_mean,  ///< the mean of all that was measured so far
};
/// Of both operands of an arm along the contracted axis.
enum class Transform : uint8_t { none, hadamard16 };
/// What a backward arm multiplies the gradient with.
enum class Residual : uint8_t {
  codes,        ///< those of the forward product; their scale is folded into the gradient before it is quantized
  original,     ///< the operand as it was
  requantized,  ///< the operand as it was, quantized for this arm
};
using Accumulation = Fp8Accumulation;
/// How the multiplications of an arm run.
enum class Product : uint8_t {
  plain,           ///< neither operand is quantized
  integers,        ///< int8 by int8, int32 sums, scales behind the sum
  integer_blocks,  ///< the same in blocks of the contracted axis, each with its scales
  codes,           ///< codes decoded to f32 as they are multiplied, scales behind the sum; one side may be plain
  values,          ///< f32 of dequantized values: scales or zero points that the sum cannot be freed of
};

std::string_view name_of(Granularity granularity);
std::string_view name_of(Scaling scaling);
std::string_view name_of(Rounding rounding);
/// "" | "uniform" | "low_bit_uniform", as the configuration has been checked to say.
Rounding rounding_named(const std::string& name);
std::string_view name_of(Transform transform);
std::string_view name_of(Accumulation accumulation);

/// Tiles of an axis: all of `size` elements, or `parts` equal ones where the length is known only when it runs (tokens).
struct Tile {
  int64_t size = 0, parts = 0;
  bool given() const { return size > 0 || parts > 1; }
  bool operator==(const Tile&) const = default;
};

/// The range of a step is margin · (largest of the last `history` steps' maxima); `initial` in step 0, and where it is 0 the
/// largest number of the type: the scale is 1.
struct DelayedScaling {
  int64_t history = 1024;
  double margin = 1.0;
  double initial = 0.0;
  bool operator==(const DelayedScaling&) const = default;
};

struct OperandRecipe {
  std::string qtype;             ///< empty: the operand stays as it is
  const Codec* codec = nullptr;  ///< null: not quantized, or a type that this version has no kernels for (bind refuses)
  Calibration calibration;
  Granularity granularity = Granularity::per_row;
  Tile contracted, other;  ///< tiles of the contracted axis; of the axis that has the scales
  Scaling scaling = Scaling::measured;
  DelayedScaling delayed;           ///< read where scaling is delayed
  std::vector<int64_t> batch_axes;  ///< running_mean: axes over which a step's maxima are averaged
  Rounding rounding = Rounding::nearest;
  std::optional<std::vector<int64_t>> noise_axes;  ///< qwix_compat: axes along which noise differs (shared_noise.hpp); none: everywhere
  ScaleLaw law;
  bool two_level = false;  ///< the scales of tiles are themselves scaled by one number for the tensor

  bool quantized() const { return !qtype.empty(); }
  bool tiled() const { return contracted.given() || other.given(); }
  /// "int8 absmax per_row …": equal texts make equal codes of equal tensors.
  std::string identity() const;
};

/// y = q(x)·q(w); dx = q(g·s_w)·q(w)ᵀ; dw = q(x)ᵀ·q(g·s_x): two different tensors are quantized for the two backward
/// arms. Where a residual is no codes, nothing is folded into g.
struct Recipe {
  OperandRecipe act, weight;  ///< forward
  OperandRecipe grad_input;   ///< g·s_w, for dx
  OperandRecipe grad_weight;  ///< g·s_x, for dw
  Residual weight_residual = Residual::codes;  ///< what dx's product reads
  Residual act_residual = Residual::codes;     ///< what dw's product reads
  OperandRecipe weight_again, act_again;       ///< how, where a residual is requantized
  Transform forward = Transform::none, dgrad = Transform::none, wgrad = Transform::none;
  bool mask_gradients = true;  ///< straight-through: zero where a calibration clips (dense products)
  Accumulation accumulation = Accumulation::f32;

  /// The two operands of an arm: the gradient or the activation first.
  const OperandRecipe& left(Arm arm) const;
  const OperandRecipe& right(Arm arm) const;
  Transform transform(Arm arm) const;
};

Product product_of(const Recipe& recipe, Arm arm, bool grouped);
/// The same in words: "int32", "int32 in blocks", "f32 of codes", "f32 of codes in blocks", "f32 of quantized values", "f32".
std::string arithmetic_of(const Recipe& recipe, Arm arm, bool grouped);

/// True where an arm sums products of codes that are no integers: what fp8_accumulation is about.
bool sums_codes(const Recipe& recipe, bool grouped);

/// The types of this recipe that this version has no codec for.
std::vector<std::string> types_without_codec(const Recipe& recipe);

/// What the quantized product of this version does not do although the recipe asks for it, in words; empty: all of it is
/// done. A plan refuses to bind anything else.
std::vector<std::string> not_offered(const Recipe& recipe, bool grouped);

}  // namespace kvant::quant
