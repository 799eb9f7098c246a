#include "quant/scheme.hpp"

#include "base/error.hpp"
#include "plugin/loader.hpp"

#include <utility>

namespace kvant::quant {
namespace {

const std::string default_method = "absmax";
const std::string default_gradient = "e5m2";

/// The string itself, or what stands in for an empty one.
const std::string& or_else(const std::string& text, const std::string& otherwise) {
  return text.empty() ? otherwise : text;
}

std::string origin_of(const config::QuantSettings& settings) { return "scheme " + settings.quantization; }

Rule plain_rule(const config::QuantSettings& settings, std::string path, std::vector<std::string> ops,
                std::string reason) {
  Rule rule;
  rule.module_path = std::move(path);
  rule.op_names = std::move(ops);
  rule.optional = true;
  rule.origin = origin_of(settings);
  rule.reason = std::move(reason);
  return rule;
}

/// Throws when the flag differs from its default: the scheme would ignore it.
template <class T>
void refuse_ignored(const config::QuantSettings& settings, const char* name, const T& value, const T& unset) {
  if (value == unset) return;
  refuse(
      "[quant] {} = {} would be ignored: the scheme '{}' quantizes the dense products of the layers with absmax and "
      "reads no such flag. "
      "fp8_full and int8_full read it.",
      name, fmt::format(std::is_same_v<T, std::string> ? "\"{}\"" : "{}", value), settings.quantization);
}

}  // namespace

Scheme::~Scheme() = default;

const Codec* Scheme::codec(std::string_view) const { return nullptr; }

void Scheme::configure(config::Section&) {}

Scheme& use_scheme(const std::string& name) {
  Scheme& scheme = plugin::use<Scheme>(name);
  scheme.set_name(name);
  return scheme;
}

std::vector<Rule> full_rules(const config::QuantSettings& settings, const FullTypes& types) {
  if (settings.bwd_quantization_dtype != default_gradient &&
      types.grad_input.find(settings.bwd_quantization_dtype) == std::string::npos)
    refuse(
        "[quant] bwd_quantization_dtype = \"{}\" would be ignored: the scheme '{}' has gradients in {}. fp8_full reads "
        "it.",
        settings.bwd_quantization_dtype, settings.quantization, types.grad_input);
  Rule layers;
  layers.module_path = settings.quantize_mtp ? "(decoder/.*layers.*|mtp_block/.*)" : "decoder/.*layers.*";
  layers.op_names = {"dot_general", "gmm", "ragged_dot"};
  layers.weight_qtype = types.weight;
  layers.act_qtype = types.act;
  layers.bwd_qtype = types.grad_input;
  layers.drhs_qtype = types.grad_weight;
  layers.weight_calibration = settings.weight_quantization_calibration_method;
  layers.act_calibration = settings.act_quantization_calibration_method;
  layers.bwd_calibration = settings.bwd_quantization_calibration_method;
  layers.drhs_calibration = settings.drhs_grad_quantization_calibration_method;
  layers.optional = true;
  layers.origin = origin_of(settings);

  std::vector<Rule> rules;
  if (settings.quantize_logits_proj) {
    Rule logits = layers;
    logits.module_path = "decoder/logits_dense.*";
    logits.op_names = {"dot_general"};
    const std::string& both = settings.logits_proj_quant_calibration_method;
    const std::string& gradients = settings.logits_proj_bwd_quant_calibration_method;
    logits.weight_calibration = or_else(both, layers.weight_calibration);
    logits.act_calibration = or_else(both, layers.act_calibration);
    logits.bwd_calibration = or_else(gradients, layers.bwd_calibration);
    logits.drhs_calibration = or_else(gradients, layers.drhs_calibration);
    rules.push_back(logits);
  }
  rules.push_back(layers);
  if (!settings.quantize_logits_proj)
    rules.push_back(plain_rule(settings, "decoder/logits_dense.*", {"dot_general"}, "quantize_logits_proj is false"));
  if (!settings.quantize_mtp)
    rules.push_back(plain_rule(settings, "mtp_block/.*", layers.op_names, "quantize_mtp is false"));
  return rules;
}

std::vector<Rule> dense_rules(const config::QuantSettings& settings, const std::string& qtype) {
  refuse_ignored(settings, "weight_quantization_calibration_method", settings.weight_quantization_calibration_method,
                 default_method);
  refuse_ignored(settings, "act_quantization_calibration_method", settings.act_quantization_calibration_method,
                 default_method);
  refuse_ignored(settings, "bwd_quantization_calibration_method", settings.bwd_quantization_calibration_method,
                 default_method);
  refuse_ignored(settings, "drhs_grad_quantization_calibration_method",
                 settings.drhs_grad_quantization_calibration_method, std::string());
  refuse_ignored(settings, "bwd_quantization_dtype", settings.bwd_quantization_dtype, default_gradient);
  refuse_ignored(settings, "quantize_mtp", settings.quantize_mtp, false);
  refuse_ignored(settings, "quantize_logits_proj", settings.quantize_logits_proj, false);

  Rule layers;
  layers.module_path = "decoder/.*layers.*";
  layers.op_names = {"dot_general"};
  layers.weight_qtype = layers.act_qtype = layers.bwd_qtype = qtype;
  layers.optional = true;
  layers.origin = origin_of(settings);
  const std::string scope = "the scheme " + settings.quantization + " covers the dense products of the layers only";
  return {layers, plain_rule(settings, ".*", {"gmm", "ragged_dot"}, scope + ", not the experts"),
          plain_rule(settings, "decoder/logits_dense.*", {"dot_general"}, scope),
          plain_rule(settings, "mtp_block/.*", {"dot_general"}, scope)};
}

}  // namespace kvant::quant
