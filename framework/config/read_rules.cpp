// The reader of [[quant.rules]]: every field of Qwix' QtRule, with the place of each key that is given.
#include "config/detail/read_quant.hpp"

#include <fmt/format.h>

#include <algorithm>

namespace kvant::config {

std::string RuleSettings::place(std::string_view key) const {
  auto found = places.find(key);
  if (found == places.end()) found = places.find("");
  return found == places.end() ? "[[quant.rules]]" : to_string(found->second);
}

std::string QuantSettings::place(std::string_view key) const {
  const auto found = places.find(key);
  return (found == places.end() ? std::string() : to_string(found->second) + ": ") + fmt::format("[quant] {}", key);
}

namespace detail {
namespace {

const std::vector<std::string> roundings = {"", "uniform", "low_bit_uniform"};
const std::vector<std::string> transforms = {"", "hadamard16"};

void remember_places(const Section& section, RuleSettings& rule) {
  for (const std::string& key : section.given()) rule.places.emplace(key, section.place_of(key));
}

/// Axes from 0 on, each of which `axes_are` names.
std::vector<int64_t> take_axes(Section& section, const Key& key, const std::vector<int64_t>& fallback, int64_t count, const char* axes_are) {
  const std::vector<int64_t> axes = section.take(key, fallback);
  if (!std::ranges::all_of(axes, [&](int64_t axis) { return axis >= 0 && axis < count; }))
    section.refuse(key.name, fmt::format("{} in section [{}] holds {}", key.name, section.path(), axes_are));
  return axes;
}

void read_selection(Section& section, RuleSettings& r) {
  r.module_path = section.take(
      {"module_path", "regular expression in Python's syntax; it matches a site's whole path, written without layer numbers"},
      r.module_path);
  r.op_names = section.take({"op_names", "dot_general, gmm, ragged_dot, einsum; none = every op"}, r.op_names);
  r.layers = section.take({"layers",
                           "layers of a stack, counted from 0: \"2-5,7\"; of the whole decoder: \"first\", \"last\", "
                           "\"first:2\", \"last:2\"; \"\" = all, and what has no number"},
                          r.layers);
  r.optional = section.take({"optional", "the rule may match nothing"}, r.optional);
}

void read_forward(Section& section, RuleSettings& r) {
  r.weight_qtype = section.take(
      {"weight_qtype", "type of the weight; \"\" = the rule leaves its sites plain, and no other type may be given"},
      r.weight_qtype);
  r.act_qtype = section.take({"act_qtype", "type of the activation; \"\" = it stays as it is"}, r.act_qtype);
  r.weight_calibration_method =
      section.take({"weight_calibration_method", "how the weight's scale is found"}, r.weight_calibration_method);
  r.act_calibration_method =
      section.take({"act_calibration_method", "the same for the activation"}, r.act_calibration_method);
  r.tile_size = section.take_tiles({"tile_size", "elements of the contracted axis, or of each axis, that share a scale"});
  r.disable_channelwise_axes =
      section.take({"disable_channelwise_axes", "one scale for the tensor instead of one for each row or column"},
                   r.disable_channelwise_axes);
  r.act_static_scale = section.take(
      {"act_static_scale", "the activation's range is the running mean of what was measured"}, r.act_static_scale);
  r.act_batch_axes = take_axes(section, {"act_batch_axes", "axes over which that mean is taken"}, r.act_batch_axes, 2, "axes of a matrix, 0 and 1");
  r.forward_transform = section.take_choice(
      {"forward_transform", "transform of both operands along the contracted axis, forward"}, r.forward_transform, transforms);
}

void read_backward(Section& section, RuleSettings& r) {
  r.bwd_qtype = section.take({"bwd_qtype", "type of both gradients; \"\" = they stay as they are"}, r.bwd_qtype);
  r.bwd_calibration_method =
      section.take({"bwd_calibration_method", "how their scales are found"}, r.bwd_calibration_method);
  r.bwd_weight_grad_tile_size =
      section.take_tile({"bwd_weight_grad_tile_size", "tokens of a weight gradient's product that share a scale"});
  r.bwd_stochastic_rounding =
      section.take_choice({"bwd_stochastic_rounding", "noise added to gradients before they are rounded"},
                          r.bwd_stochastic_rounding, roundings);
  r.channelwise_noise_axes = take_axes(
      section, {"channelwise_noise_axes", "axes along which that noise differs: 0 sequences, 1 positions, 2 outputs; read with qwix_compat only"},
      r.channelwise_noise_axes, 3, "axes of a gradient: 0 (sequences), 1 (positions), 2 (outputs)");
  r.dgrad_transform = section.take_choice({"dgrad_transform", "as forward_transform, in the activation's gradient"},
                                          r.dgrad_transform, transforms);
  r.wgrad_transform =
      section.take_choice({"wgrad_transform", "the same in the weight's gradient"}, r.wgrad_transform, transforms);
}

void read_additional(Section& section, RuleSettings& r) {
  r.dlhs_grad_qtype = section.take({"dlhs_grad_qtype", "type of the gradient that gives dx; \"\" = bwd_qtype"}, r.dlhs_grad_qtype);
  r.drhs_grad_qtype = section.take({"drhs_grad_qtype", "type of the gradient that gives dw; \"\" = bwd_qtype"}, r.drhs_grad_qtype);
  r.dlhs_grad_calibration_method = section.take(
      {"dlhs_grad_calibration_method", "calibration of the one; \"\" = bwd_calibration_method"}, r.dlhs_grad_calibration_method);
  r.drhs_grad_calibration_method = section.take(
      {"drhs_grad_calibration_method", "calibration of the other; \"\" = bwd_calibration_method"}, r.drhs_grad_calibration_method);
  r.dlhs_tile_size = section.take_tile({"dlhs_tile_size", "tiles of the product that gives dx"});
  r.drhs_tile_size = section.take_tile({"drhs_tile_size", "tiles of the product that gives dw; instead of bwd_weight_grad_tile_size"});
  r.dlhs_residual_qtype = section.take(
      {"dlhs_residual_qtype", "type in which a weight that is no codes is quantized again for dx"}, r.dlhs_residual_qtype);
  r.drhs_residual_qtype = section.take({"drhs_residual_qtype", "the same for the activation and dw"}, r.drhs_residual_qtype);
  r.use_original_residuals =
      section.take({"use_original_residuals", "gradients read the operands as they were before forward quantized them"},
                   r.use_original_residuals);
  r.disable_gradient_clipping = section.take(
      {"disable_gradient_clipping", "gradients pass also where a calibration clipped"}, r.disable_gradient_clipping);
}

RuleSettings read_rule(Section& section) {
  RuleSettings rule;
  read_selection(section, rule);
  read_forward(section, rule);
  read_backward(section, rule);
  Section additional = section.table("additional_qt_config");
  read_additional(additional, rule);
  remember_places(additional, rule);
  remember_places(section, rule);
  rule.places.emplace("", section.place());
  return rule;
}

}  // namespace

std::vector<RuleSettings> read_rules(Document& document) {
  Section prototype = document.prototype("quant.rules");
  read_rule(prototype);
  std::vector<RuleSettings> rules;
  for (Section& section : document.list("quant.rules")) rules.push_back(read_rule(section));
  return rules;
}

}  // namespace detail
}  // namespace kvant::config
