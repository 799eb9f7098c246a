#include "quant/recipe.hpp"

#include "base/kokkos.hpp"
#include "kernels/isa/isa.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>

namespace kvant::quant {
namespace {

std::string text_of(const Tile& tile) {
  if (!tile.given()) return "-";
  return tile.size > 0 ? fmt::format("{}", tile.size) : fmt::format("1/{}", tile.parts);
}

/// The residual of an arm as an operand: quantized again, or not at all.
const OperandRecipe& residual(Residual kind, const OperandRecipe& forward, const OperandRecipe& again) {
  static const OperandRecipe as_it_is;
  if (kind == Residual::codes) return forward;
  return kind == Residual::requantized ? again : as_it_is;
}

std::vector<const OperandRecipe*> operands_of(const Recipe& r) {
  return {&r.act, &r.weight, &r.grad_input, &r.grad_weight, &r.weight_again, &r.act_again};
}

}  // namespace

std::string_view name_of(Granularity granularity) {
  switch (granularity) {
    case Granularity::per_tensor:
      return "per_tensor";
    case Granularity::per_row:
      return "per_row";
    case Granularity::per_column:
      return "per_column";
    case Granularity::per_expert_column:
      return "per_expert_column";
  }
  return "?";
}

std::string_view name_of(Scaling scaling) {
  constexpr std::string_view names[] = {"measured", "constant", "delayed", "running_mean"};
  return names[static_cast<std::size_t>(scaling)];
}
Rounding rounding_named(const std::string& name) {
  return name == "uniform" ? Rounding::uniform : name == "low_bit_uniform" ? Rounding::low_bit_uniform : Rounding::nearest;
}

std::string_view name_of(Rounding rounding) {
  constexpr std::string_view names[] = {"nearest", "uniform", "low_bit_uniform"};
  return names[static_cast<std::size_t>(rounding)];
}
std::string_view name_of(Transform transform) {
  constexpr std::string_view names[] = {"none", "hadamard16"};
  return names[static_cast<std::size_t>(transform)];
}
std::string_view name_of(Accumulation accumulation) {
  constexpr std::string_view names[] = {"f32", "fp16x128", "fixed"};
  return names[static_cast<std::size_t>(accumulation)];
}

std::string OperandRecipe::identity() const {
  return fmt::format("{} {} {} {} {} {} {} {} {:a} {:a} {:a} {}{}{}{} {} {:a} {}", qtype, calibration.text, name_of(granularity),
                     text_of(contracted), text_of(other), name_of(scaling), name_of(rounding), noise_axes ? fmt::format("{}", fmt::join(*noise_axes, ",")) : "all",
                     law.bound, law.factor, law.limit, law.scale_by_reciprocal, law.true_quotient, law.reference_guard,
                     law.input_arithmetic, static_cast<int>(law.rule), law.rule_factor, two_level);
}

const OperandRecipe& Recipe::left(Arm arm) const {
  return arm == Arm::forward ? act : arm == Arm::dgrad ? grad_input : grad_weight;
}

const OperandRecipe& Recipe::right(Arm arm) const {
  if (arm == Arm::forward) return weight;
  return arm == Arm::dgrad ? residual(weight_residual, weight, weight_again) : residual(act_residual, act, act_again);
}

Transform Recipe::transform(Arm arm) const {
  return arm == Arm::forward ? forward : arm == Arm::dgrad ? dgrad : wgrad;
}

Product product_of(const Recipe& recipe, Arm arm, bool grouped) {
  const OperandRecipe &left = recipe.left(arm), &right = recipe.right(arm);
  if (!left.quantized() && !right.quantized()) return Product::plain;
  const Residual residual = arm == Arm::dgrad ? recipe.weight_residual : recipe.act_residual;
  const bool forward_codes = arm != Arm::forward && residual == Residual::codes && right.quantized();
  if (left.calibration.zero_point || right.calibration.zero_point) return Product::values;
  // Their scales lie along the sum of a backward arm, and only a gradient that is quantized can take them.
  if (forward_codes && !left.quantized() && right.scaling == Scaling::measured) return Product::values;
  const auto integer = [](const OperandRecipe& o) { return o.codec != nullptr && o.codec->storage() == DType::i8; };
  const bool integers = integer(left) && integer(right);
  if (!left.tiled() && !right.tiled()) return integers ? Product::integers : Product::codes;
  // Tiles of the forward product's axis alone: along this arm's axis every code has a scale of its own.
  if (forward_codes && right.tiled() && !right.other.given()) return Product::values;
  const Tile& tile = forward_codes ? right.other : right.contracted;  // of the axis that this arm sums over
  const bool fits = !left.contracted.given() || !tile.given() || left.contracted == tile;
  const bool ragged = grouped && arm == Arm::wgrad;
  return integers && fits && !ragged ? Product::integer_blocks : Product::values;
}

std::string arithmetic_of(const Recipe& recipe, Arm arm, bool grouped) {
  const OperandRecipe &left = recipe.left(arm), &right = recipe.right(arm);
  const bool one_plain = !left.quantized() || !right.quantized();
  const bool shifted = left.calibration.zero_point || right.calibration.zero_point;
  switch (product_of(recipe, arm, grouped)) {
    case Product::plain:
      return "f32";
    case Product::integers:
      return "int32";
    case Product::integer_blocks:
      return "int32 in blocks";
    case Product::codes:
      return one_plain ? "f32 of quantized values" : std::string(name_of(recipe.accumulation)) + " of codes";
    case Product::values:
      return one_plain || shifted ? "f32 of quantized values" : std::string(name_of(recipe.accumulation)) + " of codes in blocks";
  }
  return "?";
}

bool sums_codes(const Recipe& recipe, bool grouped) {
  return std::ranges::any_of(std::array{Arm::forward, Arm::dgrad, Arm::wgrad}, [&](Arm arm) {
    const Product product = product_of(recipe, arm, grouped);
    return recipe.left(arm).quantized() && recipe.right(arm).quantized() && (product == Product::codes || product == Product::values);
  });
}

std::vector<std::string> types_without_codec(const Recipe& recipe) {
  std::vector<std::string> names;
  for (const OperandRecipe* operand : operands_of(recipe))
    if (operand->quantized() && operand->codec == nullptr && std::ranges::find(names, operand->qtype) == names.end())
      names.push_back(operand->qtype);
  return names;
}

namespace {

/// Whether an arm's product of codes can be summed as fp8_accumulation asks for.
bool accumulation_fits(const Recipe& r, Arm arm, bool grouped) {
  const OperandRecipe &left = r.left(arm), &right = r.right(arm);
  const Product product = product_of(r, arm, grouped);
  const bool of_codes = left.quantized() && right.quantized() && (product == Product::codes || product == Product::values);
  if (r.accumulation == Accumulation::f32 || !of_codes) return true;
  const auto type = [](const OperandRecipe& o) { return o.codec != nullptr && o.codec->readable_by_gemm() ? o.codec->storage() : DType::f32; };
  const bool both = type(left) == DType::e4m3fn && type(right) == DType::e4m3fn;
  return product == Product::codes && (r.accumulation == Accumulation::fixed ? both : takes_half_sums(type(left), type(right)));
}

}  // namespace

std::vector<std::string> not_offered(const Recipe& r, bool grouped) {
  std::vector<std::string> what;
  const auto when = [&](bool asked, const char* words) {
    if (asked) what.emplace_back(words);
  };
  when(r.act.scaling == Scaling::running_mean && (r.act.calibration.zero_point || r.act.calibration.search != nullptr || !r.act.calibration.measured),
       "act_static_scale with a calibration other than absmax");
  const OperandRecipe& g = r.grad_weight;
  when(grouped && g.calibration.search != nullptr && g.granularity == Granularity::per_expert_column && !g.contracted.given() &&
           !g.calibration.search->takes_counts(),
       "for the gradients of experts, whose rows differ in number, a calibration whose search takes counts");
  when(r.accumulation == Accumulation::fp16x128 && exec_is_host && !sums_in_half(),
       "fp8_accumulation = \"fp16x128\" on this CPU: sums in float16 need AVX-512 FP16 (\"f32\" runs everywhere; KVANT_ISA=portable emulates them, slowly)");
  for (const Arm arm : {Arm::forward, Arm::dgrad, Arm::wgrad})
    if (!accumulation_fits(r, arm, grouped))
      what.push_back(fmt::format("fp8_accumulation = \"{}\" for {} by {}{}: it multiplies {}, without tiles", name_of(r.accumulation), r.left(arm).qtype,
                                 r.right(arm).qtype, product_of(r, arm, grouped) == Product::values ? " in blocks" : "",
                                 r.accumulation == Accumulation::fixed ? "float8_e4m3fn by float8_e4m3fn" : "float8_e4m3fn by float8_e4m3fn or float8_e5m2"));
  return what;
}

}  // namespace kvant::quant
