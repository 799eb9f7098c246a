#include "quant/resolve.hpp"

#include "base/error.hpp"
#include "config/suggest.hpp"

namespace kvant::quant {
namespace {

const Codec& find_codec(const Rule& rule, const std::string& qtype, const Scheme* scheme) {
  if (const Codec* codec = builtin_codec(qtype)) return *codec;
  if (scheme != nullptr) {
    if (const Codec* codec = scheme->codec(qtype)) return *codec;
  }
  std::vector<std::string> names;
  for (const std::string_view name : builtin_qtypes()) names.emplace_back(name);
  const std::string nearest = config::nearest(qtype, names);
  refuse("{}: the type \"{}\" is not known{}; there are {}{}.", rule.origin, qtype,
         nearest.empty() ? "" : fmt::format(" (\"{}\"?)", nearest), config::listed(names),
         scheme != nullptr ? fmt::format(", and what the scheme '{}' brings", scheme->name()) : "");
}

ScaleLaw law_of(const Codec& codec, const Calibration& calibration, bool half_step, const std::string& compat) {
  ScaleLaw law;
  const bool reference_range = half_step || (!compat.empty() && codec.storage() == DType::i8);
  law.bound = codec.bound(reference_range);
  law.factor = calibration.factor;
  if (!reference_range) law.limit = codec.bound(false);
  law.reference_guard = !compat.empty();
  // XLA multiplies by rounded reciprocals, except where the divisor is one number.
  law.scale_by_reciprocal = compat == "xla" && calibration.measured;
  law.true_quotient = compat == "ieee" || (compat == "xla" && !calibration.measured);
  return law;
}

struct Operand {
  const std::string& qtype;
  const std::string& calibration;
  Granularity granularity;
};

OperandRecipe resolve_operand(const Rule& rule, const Operand& operand, const Scheme* scheme,
                              const std::string& compat) {
  OperandRecipe recipe;
  recipe.qtype = operand.qtype;
  recipe.codec = &find_codec(rule, operand.qtype, scheme);
  recipe.calibration = parse_calibration(operand.calibration);
  const Calibration& c = recipe.calibration;
  if (!c.measured && c.low != -c.high)
    refuse(
        "{}: the calibration \"{}\" is not symmetric, which needs a zero point, and products with zero points are not "
        "offered; "
        "\"fixed,{}\" is the symmetric range that holds it.",
        rule.origin, c.text, std::max(-c.low, c.high));
  recipe.granularity = !c.measured || rule.disable_channelwise_axes ? Granularity::per_tensor : operand.granularity;
  recipe.law = law_of(*recipe.codec, c, rule.half_step, compat);
  return recipe;
}

}  // namespace

Recipe resolve_recipe(const Rule& rule, SiteKind kind, const Scheme* scheme, const std::string& compat) {
  require(kind != SiteKind::attention, "A product of two activations has no recipe.");
  if (rule.weight_qtype.empty() || rule.act_qtype.empty() || rule.bwd_qtype.empty())
    refuse(
        "{}: the rule \"{}\" gives weight type \"{}\", activation type \"{}\" and gradient type \"{}\"; all three are "
        "needed (weight-only "
        "products and float gradients of quantized products are not offered), or none of them to leave its sites "
        "plain.",
        rule.origin, rule.module_path, rule.weight_qtype, rule.act_qtype, rule.bwd_qtype);
  const bool per_expert = kind == SiteKind::grouped && compat.empty();
  const Granularity columns = per_expert ? Granularity::per_expert_column : Granularity::per_column;
  const std::string& drhs_qtype = rule.drhs_qtype.empty() ? rule.bwd_qtype : rule.drhs_qtype;
  const std::string& drhs_calibration = rule.drhs_calibration.empty() ? rule.bwd_calibration : rule.drhs_calibration;
  Recipe recipe;
  recipe.act = resolve_operand(rule, {rule.act_qtype, rule.act_calibration, Granularity::per_row}, scheme, compat);
  recipe.weight = resolve_operand(rule, {rule.weight_qtype, rule.weight_calibration, columns}, scheme, compat);
  recipe.grad_input =
      resolve_operand(rule, {rule.bwd_qtype, rule.bwd_calibration, Granularity::per_row}, scheme, compat);
  recipe.grad_weight = resolve_operand(rule, {drhs_qtype, drhs_calibration, columns}, scheme, compat);
  return recipe;
}

}  // namespace kvant::quant
