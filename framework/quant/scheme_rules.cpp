// Rules that schemes are made of: the reference's tables, and what ours have in common (maxtext-semantics 1.3).
#include "base/error.hpp"
#include "quant/scheme.hpp"

#include <utility>

namespace kvant::quant {
namespace {

using config::QuantSettings;

const std::vector<std::string> expert_ops = {"gmm", "ragged_dot"};

/// The string itself, or what stands in for an empty one.
const std::string& or_else(const std::string& text, const std::string& otherwise) {
  return text.empty() ? otherwise : text;
}

std::string origin_of(const QuantSettings& settings) { return "scheme " + settings.quantization; }

std::string written(const std::string& value) { return fmt::format("\"{}\"", value); }
std::string written(bool value) { return value ? "true" : "false"; }
std::string written(int64_t value) { return fmt::format("{}", value); }

/// Collects the flags that differ from their defaults.
class Flags {
 public:
  explicit Flags(const QuantSettings& settings) : settings_(settings) {}
  template <class T>
  void add(const char* name, T QuantSettings::* member) {
    if (settings_.*member != defaults_.*member) set_.emplace_back(name, written(settings_.*member));
  }
  const std::vector<std::pair<std::string, std::string>>& set() const { return set_; }

 private:
  const QuantSettings& settings_;
  const QuantSettings defaults_;
  std::vector<std::pair<std::string, std::string>> set_;
};

void add_calibrations(Flags& flags) {
  flags.add("quantization_calibration_method", &QuantSettings::quantization_calibration_method);
  flags.add("weight_quantization_calibration_method", &QuantSettings::weight_quantization_calibration_method);
  flags.add("act_quantization_calibration_method", &QuantSettings::act_quantization_calibration_method);
  flags.add("bwd_quantization_calibration_method", &QuantSettings::bwd_quantization_calibration_method);
  flags.add("drhs_grad_quantization_calibration_method", &QuantSettings::drhs_grad_quantization_calibration_method);
}

/// For the table: the flags that shaped a rule.
std::vector<std::string> shaping(const Flags& flags) {
  std::vector<std::string> texts;
  for (const auto& [name, value] : flags.set()) texts.push_back(name + " = " + value);
  return texts;
}

Rule layers_rule(const QuantSettings& settings, std::vector<std::string> ops) {
  Rule rule;
  rule.module_path = "decoder/.*layers.*";
  rule.op_names = std::move(ops);
  rule.optional = true;
  rule.origin = origin_of(settings);
  return rule;
}

/// What the reference's dense schemes leave plain, with the reason.
std::vector<Rule> with_plain_rest(Rule layers, const QuantSettings& settings) {
  const std::string scope = "the scheme " + settings.quantization + " covers the dense products of the layers only";
  return {std::move(layers), plain_rule(settings, ".*", expert_ops, scope + ", not the experts"),
          plain_rule(settings, "decoder/logits_dense.*", {"dot_general"}, scope),
          plain_rule(settings, "mtp_block/.*", {"dot_general"}, scope)};
}

Rule logits_rule(const QuantSettings& settings, const Rule& layers) {
  Rule logits = layers;
  logits.module_path = "decoder/logits_dense.*";
  logits.op_names = {"dot_general"};
  const std::string& both = settings.logits_proj_quant_calibration_method;
  const std::string& gradients = settings.logits_proj_bwd_quant_calibration_method;
  logits.weight_calibration = or_else(both, layers.weight_calibration);
  logits.act_calibration = or_else(both, layers.act_calibration);
  logits.bwd_calibration = or_else(gradients, layers.bwd_calibration);
  logits.drhs_calibration = or_else(gradients, layers.drhs_calibration);
  Flags flags(settings);
  flags.add("quantize_logits_proj", &QuantSettings::quantize_logits_proj);
  flags.add("logits_proj_quant_calibration_method", &QuantSettings::logits_proj_quant_calibration_method);
  flags.add("logits_proj_bwd_quant_calibration_method", &QuantSettings::logits_proj_bwd_quant_calibration_method);
  logits.flags = shaping(flags);
  for (const char* field : {"weight_calibration_method", "act_calibration_method"})
    if (!both.empty()) logits.places[field] = settings.place("logits_proj_quant_calibration_method");
  for (const char* field : {"bwd_calibration_method", "drhs_grad_calibration_method"})
    if (!gradients.empty()) logits.places[field] = settings.place("logits_proj_bwd_quant_calibration_method");
  return logits;
}

}  // namespace

Rule plain_rule(const QuantSettings& settings, std::string path, std::vector<std::string> ops, std::string reason) {
  Rule rule;
  rule.module_path = std::move(path);
  rule.op_names = std::move(ops);
  rule.optional = rule.explains = true;
  rule.origin = origin_of(settings);
  rule.reason = std::move(reason);
  return rule;
}

void refuse_unread_flags(const QuantSettings& settings, const FlagsRead& reads, const std::string& scope,
                         const std::string& instead) {
  Flags flags(settings);
  if (!reads.calibrations) add_calibrations(flags);
  if (!reads.bwd_dtype) flags.add("bwd_quantization_dtype", &QuantSettings::bwd_quantization_dtype);
  if (!reads.delayed) flags.add("bwd_delayed_scaling", &QuantSettings::bwd_delayed_scaling);
  if (!reads.mtp) flags.add("quantize_mtp", &QuantSettings::quantize_mtp);
  if (!reads.logits) flags.add("quantize_logits_proj", &QuantSettings::quantize_logits_proj);
  if (!reads.rounding) flags.add("bwd_stochastic_rounding", &QuantSettings::bwd_stochastic_rounding);
  if (!reads.shards) flags.add("quantization_local_shard_count", &QuantSettings::quantization_local_shard_count);
  if (flags.set().empty()) return;
  const auto& [name, value] = flags.set().front();
  refuse("{} = {} would be ignored: the scheme '{}' {}. {}.", settings.place(name), value, settings.quantization, scope, instead);
}

std::vector<Rule> full_rules(const QuantSettings& settings, const FullTypes& types) {
  refuse_unread_flags(settings,
                      {.calibrations = true, .bwd_dtype = types.reads_bwd_dtype, .delayed = true, .mtp = true, .logits = true, .rounding = true},
                      fmt::format("has gradients in {}, each weight gradient in one tile", types.grad_input),
                      "fp8_full reads bwd_quantization_dtype; the reference's dense schemes (int8, fp8, …) and "
                      "bwd_weight_grad_tile_size of a rule make tiles");
  Rule layers = layers_rule(settings, {"dot_general", "gmm", "ragged_dot"});
  if (settings.quantize_mtp) layers.module_path = "(decoder/.*layers.*|mtp_block/.*)";
  layers.weight_qtype = types.weight;
  layers.act_qtype = types.act;
  layers.bwd_qtype = types.grad_input;
  layers.drhs_qtype = types.grad_weight;
  layers.weight_calibration = settings.weight_quantization_calibration_method;
  layers.act_calibration = settings.act_quantization_calibration_method;
  layers.bwd_calibration = settings.bwd_quantization_calibration_method;
  layers.drhs_calibration = settings.drhs_grad_quantization_calibration_method;
  layers.bwd_rounding = rounding_named(settings.bwd_stochastic_rounding);
  const bool both = !settings.quantization_calibration_method.empty();
  for (const auto& [field, key] : {std::pair("weight_calibration_method", both ? "quantization_calibration_method" : "weight_quantization_calibration_method"),
                                   std::pair("act_calibration_method", both ? "quantization_calibration_method" : "act_quantization_calibration_method"),
                                   std::pair("bwd_calibration_method", "bwd_quantization_calibration_method"),
                                   std::pair("drhs_grad_calibration_method", "drhs_grad_quantization_calibration_method")})
    if (settings.places.contains(key)) layers.places[field] = settings.place(key);
  if (settings.bwd_delayed_scaling)
    layers.delayed_backward = DelayedScaling{settings.bwd_delayed_scaling_history, settings.bwd_delayed_scaling_margin,
                                             settings.bwd_delayed_scaling_init};
  Flags flags(settings);
  add_calibrations(flags);
  flags.add("bwd_quantization_dtype", &QuantSettings::bwd_quantization_dtype);
  flags.add("bwd_delayed_scaling", &QuantSettings::bwd_delayed_scaling);
  flags.add("bwd_stochastic_rounding", &QuantSettings::bwd_stochastic_rounding);
  flags.add("quantize_mtp", &QuantSettings::quantize_mtp);
  layers.flags = shaping(flags);

  std::vector<Rule> rules;
  if (settings.quantize_logits_proj) rules.push_back(logits_rule(settings, layers));
  rules.push_back(layers);
  if (!settings.quantize_logits_proj) {
    rules.push_back(plain_rule(settings, "decoder/logits_dense.*", {"dot_general"}, "quantize_logits_proj is false"));
    rules.back().flags = {"quantize_logits_proj = false"};
  }
  if (!settings.quantize_mtp) {
    rules.push_back(plain_rule(settings, "mtp_block/.*", layers.op_names, "quantize_mtp is false"));
    rules.back().flags = {"quantize_mtp = false"};
  }
  return rules;
}

std::vector<Rule> dense_rules(const QuantSettings& settings, const std::string& qtype) {
  refuse_unread_flags(settings, {.shards = true}, "quantizes the dense products of the layers with absmax and reads no such flag",
                      "fp8_full and int8_full read it");
  Rule layers = layers_rule(settings, {"dot_general"});
  layers.weight_qtype = layers.act_qtype = layers.bwd_qtype = qtype;
  const int64_t shards = settings.quantization_local_shard_count;
  layers.wgrad_tile.share = shards > 0 ? 1.0 / static_cast<double>(shards) : 1.0;
  Flags flags(settings);
  flags.add("quantization_local_shard_count", &QuantSettings::quantization_local_shard_count);
  layers.flags = shaping(flags);
  return with_plain_rest(std::move(layers), settings);
}

std::vector<Rule> delayed_rules(const QuantSettings& settings, const std::string& forward, const std::string& gradient) {
  refuse_unread_flags(settings, {}, "takes the range of every operand of the layers' dense products from a history of its maxima",
                      "fp8_full reads calibrations, quantize_mtp, quantize_logits_proj and bwd_delayed_scaling");
  Rule layers = layers_rule(settings, {"dot_general"});
  layers.weight_qtype = layers.act_qtype = forward;
  layers.bwd_qtype = gradient;
  layers.disable_channelwise_axes = true;
  layers.delayed_forward = layers.delayed_backward = DelayedScaling{};
  return with_plain_rest(std::move(layers), settings);
}

}  // namespace kvant::quant
