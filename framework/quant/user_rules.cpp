#include "quant/user_rules.hpp"

#include "base/error.hpp"
#include "config/suggest.hpp"
#include "quant/python_regex.hpp"
#include "quant/qtype.hpp"

#include <algorithm>

namespace kvant::quant {
namespace {

using config::QuantSettings;
using config::RuleSettings;

/// What is wrong, all of it.
class Problems {
 public:
  template <class... Args>
  void add(const std::string& place, fmt::format_string<Args...> sentence, Args&&... args) {
    found_.push_back(place + ": " + fmt::format(sentence, std::forward<Args>(args)...));
  }
  void throw_all() const {
    if (found_.empty()) return;
    if (found_.size() == 1) throw UsageError(found_.front());
    std::string text = fmt::format("{} problems in the rules of [quant]:", found_.size());
    for (const std::string& sentence : found_) text += "\n  " + sentence;
    throw UsageError(text);
  }

 private:
  std::vector<std::string> found_;
};

/// " (\"int8\"?)"
std::string meant(const std::string& written, const std::vector<std::string>& names) {
  const std::string nearest = config::nearest(written, names);
  return nearest.empty() ? "" : fmt::format(" (\"{}\"?)", nearest);
}

void check_qtype(const std::string& place, const std::string& field, const std::string& qtype, const Scheme* scheme,
                 Problems& problems) {
  if (qtype.empty() || find_qtype(qtype) != nullptr || (scheme != nullptr && scheme->guarded_codec(qtype) != nullptr)) return;
  const std::vector<std::string> names = qtype_names();
  problems.add(place, "{} = \"{}\" is no known type{}; there are {}{}.", field, qtype, meant(qtype, names),
               config::listed(names, names.size()),
               scheme != nullptr ? fmt::format(", and what the scheme '{}' brings", scheme->name()) : "");
}

void check_ops(const RuleSettings& r, Problems& problems) {
  static const std::vector<std::string> known = {"dot_general", "gmm", "ragged_dot", "einsum"};
  for (const std::string& op : r.op_names) {
    if (std::ranges::find(known, op) != known.end()) continue;
    const std::string name = op.substr(0, op.find_last_not_of("0123456789") + 1);
    if (name != op && std::ranges::find(known, name) != known.end())
      problems.add(r.place("op_names"), "op_names holds \"{}\"; op names have no running number: \"{}\".", op, name);
    else
      problems.add(r.place("op_names"), "op_names holds \"{}\", which is no op{}; there are {}.", op, meant(op, known),
                   config::listed(known));
  }
}

/// A field that nothing would read.
void check_ignored(const RuleSettings& r, Problems& problems) {
  const auto needs = [&](bool has, const char* what, std::initializer_list<const char*> fields) {
    for (const char* field : fields)
      if (!has && r.has(field))
        problems.add(r.place(field), "{} would be ignored: the rule has no {}.", field, what);
  };
  if (r.weight_qtype.empty()) {
    needs(false, "weight_qtype, so it leaves its sites plain",
          {"act_qtype", "bwd_qtype", "weight_calibration_method", "act_calibration_method", "bwd_calibration_method",
           "tile_size", "bwd_weight_grad_tile_size", "disable_channelwise_axes", "act_static_scale", "act_batch_axes",
           "bwd_stochastic_rounding", "forward_transform", "dgrad_transform", "wgrad_transform", "additional_qt_config"});
    return;
  }
  needs(!r.act_qtype.empty(), "act_qtype", {"act_calibration_method", "act_static_scale", "act_batch_axes"});
  needs(r.act_static_scale, "act_static_scale = true", {"act_batch_axes"});
  const bool dgrad = !r.bwd_qtype.empty() || !r.dlhs_grad_qtype.empty(), wgrad = !r.bwd_qtype.empty() || !r.drhs_grad_qtype.empty();
  needs(dgrad || wgrad, "bwd_qtype", {"bwd_calibration_method", "bwd_stochastic_rounding"});
  needs(wgrad, "bwd_qtype", {"bwd_weight_grad_tile_size", "drhs_grad_calibration_method", "drhs_tile_size",
                             "drhs_residual_qtype", "wgrad_transform"});
  needs(dgrad, "bwd_qtype", {"dlhs_grad_calibration_method", "dlhs_tile_size", "dlhs_residual_qtype", "dgrad_transform"});
  needs(!r.bwd_stochastic_rounding.empty(), "bwd_stochastic_rounding", {"channelwise_noise_axes"});
  if (r.bwd_weight_grad_tile_size.given() && r.drhs_tile_size.given())
    problems.add(r.place("drhs_tile_size"), "drhs_tile_size and bwd_weight_grad_tile_size are the same setting: give one of them.");
}

void check_rule(const RuleSettings& r, const QuantSettings& settings, const Scheme* scheme, Problems& problems) {
  check_ops(r, problems);
  const std::pair<const char*, const std::string*> types[] = {
      {"weight_qtype", &r.weight_qtype},       {"act_qtype", &r.act_qtype},
      {"bwd_qtype", &r.bwd_qtype},             {"dlhs_grad_qtype", &r.dlhs_grad_qtype},
      {"drhs_grad_qtype", &r.drhs_grad_qtype}, {"dlhs_residual_qtype", &r.dlhs_residual_qtype},
      {"drhs_residual_qtype", &r.drhs_residual_qtype}};
  for (const auto& [field, qtype] : types) check_qtype(r.place(field), field, *qtype, scheme, problems);
  check_ignored(r, problems);
  if (r.has("channelwise_noise_axes") && settings.qwix_compat.empty())
    problems.add(r.place("channelwise_noise_axes"),
                 "channelwise_noise_axes has nothing to act on: Kvant's noise is another one for every element; qwix_compat "
                 "has the reference's.");
}

Transform transform_of(const std::string& name) { return name == "hadamard16" ? Transform::hadamard16 : Transform::none; }

/// A literal name matches where it stands as whole elements of a path: the module itself and all below it.
std::vector<Rule> exclusions(const QuantSettings& settings, Problems& problems) {
  std::vector<Rule> rules;
  for (const std::string& name : settings.unquantized_modules) {
    if (name.empty() || name.front() == '/' || name.back() == '/')
      problems.add(settings.place("unquantized_modules"), "\"{}\" is no name of a module; \"wkv_b\" or \"shared_experts/wo\" would be.", name);
    Rule rule;
    rule.module_path = "(.*/)?" + escaped(name) + "(/.*)?";
    rule.names = name;
    rule.origin = settings.place("unquantized_modules");
    rule.reason = fmt::format("unquantized_modules names \"{}\"", name);
    rule.flags = {fmt::format("unquantized_modules holds \"{}\"", name)};
    rules.push_back(rule);
  }
  return rules;
}

Rule plain(const std::string& path, const QuantSettings& settings) {
  Rule rule;
  rule.module_path = path;
  rule.optional = rule.explains = true;
  rule.origin = settings.place("dtype");
  rule.reason = "the short form covers the trunk only";
  return rule;
}

/// The trunk alone: the head and the prediction modules stay plain whatever the patterns say.
std::vector<Rule> short_form(const QuantSettings& s, const Scheme* scheme, Problems& problems) {
  const QtypeFacts* facts = find_qtype(s.dtype);
  check_qtype(s.place("dtype"), "dtype", s.dtype, scheme, problems);
  check_qtype(s.place("bwd_qtype"), "bwd_qtype", s.bwd_qtype, scheme, problems);
  if (facts != nullptr && facts->weights_only)
    problems.add(s.place("dtype"), "dtype = \"{}\" is a type of weights alone; [[quant.rules]] gives weights and activations "
                                   "types of their own.", s.dtype);
  if (s.quantize_router_proj)
    problems.add(s.place("quantize_router_proj"), "true would be ignored: the short form covers the trunk only.");
  if (s.bwd_qtype.empty() && !s.bwd_stochastic_rounding.empty())
    problems.add(s.place("bwd_stochastic_rounding"), "\"{}\" would be ignored: there is no bwd_qtype.", s.bwd_stochastic_rounding);
  std::vector<Rule> rules = {plain("decoder/logits_dense.*", s), plain("mtp_block/.*", s)};
  const bool everywhere = s.patterns.empty();
  for (const std::string& pattern : everywhere ? std::vector<std::string>{"decoder/.*layers.*"} : s.patterns) {
    Rule rule;
    rule.module_path = pattern;
    rule.weight_qtype = rule.act_qtype = s.dtype;
    rule.bwd_qtype = s.bwd_qtype;
    rule.weight_calibration = rule.act_calibration = rule.bwd_calibration = s.calibration;
    rule.act_tile = rule.weight_tile = s.tile_size;
    rule.bwd_rounding = rounding_named(s.bwd_stochastic_rounding);
    rule.optional = everywhere;
    rule.origin = s.place(everywhere ? "dtype" : "patterns");
    for (const char* field : {"calibration", "tile_size", "bwd_qtype", "bwd_stochastic_rounding"})
      rule.places[field] = s.place(field);
    for (const char* field : {"weight_calibration_method", "act_calibration_method", "bwd_calibration_method"})
      rule.places[field] = s.place("calibration");
    rules.push_back(rule);
  }
  return rules;
}

}  // namespace

Rule rule_of(const RuleSettings& r) {
  Rule rule;
  rule.module_path = r.module_path;
  rule.op_names = r.op_names;
  rule.layers = r.layers;
  rule.optional = r.optional;
  rule.weight_qtype = r.weight_qtype;
  rule.act_qtype = r.act_qtype;
  rule.bwd_qtype = r.dlhs_grad_qtype.empty() ? r.bwd_qtype : r.dlhs_grad_qtype;
  rule.drhs_qtype = r.drhs_grad_qtype.empty() ? r.bwd_qtype : r.drhs_grad_qtype;
  rule.plain_wgrad = rule.drhs_qtype.empty() && !rule.bwd_qtype.empty();
  rule.weight_calibration = r.weight_calibration_method;
  rule.act_calibration = r.act_calibration_method;
  rule.bwd_calibration = r.dlhs_grad_calibration_method.empty() ? r.bwd_calibration_method : r.dlhs_grad_calibration_method;
  rule.drhs_calibration = r.drhs_grad_calibration_method.empty() ? r.bwd_calibration_method : r.drhs_grad_calibration_method;
  rule.act_tile = rule.weight_tile = r.tile_size;
  rule.dgrad_tile = r.dlhs_tile_size;
  rule.wgrad_tile = r.drhs_tile_size.given() ? r.drhs_tile_size : r.bwd_weight_grad_tile_size;
  rule.disable_channelwise_axes = r.disable_channelwise_axes;
  rule.act_static_scale = r.act_static_scale;
  rule.act_batch_axes = r.act_batch_axes;
  rule.bwd_rounding = rounding_named(r.bwd_stochastic_rounding);
  rule.noise_axes = r.channelwise_noise_axes;
  rule.forward_transform = transform_of(r.forward_transform);
  rule.dgrad_transform = transform_of(r.dgrad_transform);
  rule.wgrad_transform = transform_of(r.wgrad_transform);
  rule.weight_residual_qtype = r.dlhs_residual_qtype;
  rule.act_residual_qtype = r.drhs_residual_qtype;
  rule.original_residuals = r.use_original_residuals;
  rule.mask_gradients = !r.disable_gradient_clipping;
  rule.origin = r.place();
  for (const auto& [key, place] : r.places)
    if (!key.empty()) rule.places[key] = to_string(place);
  return rule;
}

std::vector<Rule> user_rules(const QuantSettings& settings, const Scheme* scheme) {
  Problems problems;
  std::vector<Rule> rules = exclusions(settings, problems);
  for (const RuleSettings& r : settings.rules) {
    check_rule(r, settings, scheme, problems);
    rules.push_back(rule_of(r));
  }
  if (!settings.dtype.empty()) {
    const std::vector<Rule> trunk = short_form(settings, scheme, problems);
    rules.insert(rules.end(), trunk.begin(), trunk.end());
  }
  problems.throw_all();
  return rules;
}

}  // namespace kvant::quant
