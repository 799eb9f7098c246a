// The reader of [quant]. Descriptions become docs/configuration.md.
#include "config/detail/read_quant.hpp"

#include "base/error.hpp"

#include <fmt/format.h>

#include <set>

namespace kvant::config::detail {
namespace {

const std::string grammar = "absmax[,f], minmax[,f], rms,f, fixed,m or fixed,lo,hi, or a plugin's";

/// Keys that act without a scheme, on [[quant.rules]] or on all that is quantized; `short_form`: on the short form.
bool acts_without_scheme(const std::string& key) {
  static const std::set<std::string, std::less<>> keys = {"quantization", "quantize_router_proj", "unquantized_modules",
                                                          "qwix_compat", "fp8_accumulation", "use_qwix_quantization"};
  return keys.contains(key);
}
bool is_short_form(const std::string& key) {
  static const std::set<std::string, std::less<>> keys = {"dtype", "patterns", "calibration", "tile_size", "bwd_qtype"};
  return keys.contains(key);
}
/// Read by schemes and by the short form alike.
bool is_shared(const std::string& key) { return key == "bwd_stochastic_rounding"; }

/// A setting that nothing reads would be a wish that is silently not met. An explicit quantization = "" is another matter:
/// it says that nothing shall be quantized, whatever else stands in the section.
void refuse_idle_keys(const Document& document, Section& section, const QuantSettings& s) {
  const bool says_none = section.has("quantization") && s.quantization.empty();
  if (says_none) return;
  const bool uses_short_form = !s.dtype.empty();
  for (const KeyRecord& record : document.keys()) {
    const std::string& key = record.key.name;
    // Who writes a default out, as the configuration in force does, wishes for nothing.
    if (record.section != "quant" || !record.given || record.value == record.fallback || key == "quantization") continue;
    if (is_shared(key) && uses_short_form) continue;
    if (is_short_form(key)) {
      if (!s.scheme().empty())
        section.refuse(key, fmt::format("{} in section [quant] belongs to the short form (dtype, patterns, …), which stands "
                                        "instead of a scheme; quantization = \"{}\" names one",
                                        key, s.quantization));
      else if (!uses_short_form)
        section.refuse(key, fmt::format("{} in section [quant] belongs to the short form, which needs dtype, the type of "
                                        "weights and activations",
                                        key));
    } else if (s.scheme().empty() && !(s.anything() && acts_without_scheme(key))) {
      section.refuse(key, fmt::format("{} in section [quant] has nothing to act on: no 'quantization' names a scheme (write "
                                      "quantization = \"\" if nothing shall be quantized)",
                                      key));
    }
  }
}

/// quantization = "" that an inner layer says (a file that is extended, or any file where rules are an override) was not said of
/// rules that came later.
void refuse_inherited_none(Section& section, const QuantSettings& s) {
  if (!section.has("quantization") || !s.quantization.empty()) return;
  const Place none = section.place_of("quantization");
  const auto later = [&](const Place& place) { return place.layer < none.layer; };
  const bool rules = std::ranges::any_of(s.rules, [&](const RuleSettings& r) { return later(r.places.at("")); });
  if (!rules && (s.dtype.empty() || !later(section.place_of("dtype")))) return;
  section.refuse(rules ? "rules" : "dtype", fmt::format("{} in section [quant] would be ignored: {} says quantization = \"\", nothing is quantized; say quantization = "
                                                        "\"rules\" beside them",
                                                        rules ? "rules" : "dtype and patterns", to_string(none)));
}

void read_flags(Section& section, QuantSettings& s) {
  s.use_qwix_quantization = section.take(
      {"use_qwix_quantization",
       "false: the reference's older path, which knows int8, int8w, int4w, intmp, fp8 and nanoo_fp8"},
      s.use_qwix_quantization);
  s.quantize_router_proj = section.take({"quantize_router_proj", "the router's matmul too"}, s.quantize_router_proj);
  s.quantize_mtp = section.take({"quantize_mtp", "the multi-token-prediction block too"}, s.quantize_mtp);
  s.quantize_logits_proj =
      section.take({"quantize_logits_proj", "the head's matmul too, for every head that runs"}, s.quantize_logits_proj);
  s.unquantized_modules = section.take(
      {"unquantized_modules",
       "modules that stay plain, by name (\"wkv_b\") or by several elements of a path (\"shared_experts/wo\")"},
      s.unquantized_modules);
  s.quant_cfg_path = section.take_path(
      {"quant_cfg_path", "intmp: JSON file of bits by module, relative to the file that says so"}, s.quant_cfg_path);
}

/// quantization_calibration_method stands for two flags; it is written into both, so that the configuration in force
/// reads back.
void read_forward_calibrations(Section& section, QuantSettings& s) {
  s.quantization_calibration_method =
      section.take({"quantization_calibration_method",
                    "weight and activation together; \"\" = each has its own; beside one of the two it is refused"},
                   s.quantization_calibration_method);
  const std::string& both = s.quantization_calibration_method;
  const std::pair<Key, std::string*> each[] = {
      {{"weight_quantization_calibration_method", "how a weight's scale is found: " + grammar},
       &s.weight_quantization_calibration_method},
      {{"act_quantization_calibration_method", "the same for activations"}, &s.act_quantization_calibration_method},
  };
  for (const auto& [key, value] : each) {
    *value = section.take(key, both.empty() ? *value : both);
    if (!both.empty() && *value != both)
      section.refuse(key.name, fmt::format("{} = \"{}\" in section [quant] stands beside quantization_calibration_method = "
                                           "\"{}\", which means this key too: give one of them",
                                           key.name, *value, both));
  }
}

void read_backward(Section& section, QuantSettings& s) {
  s.bwd_quantization_calibration_method = section.take(
      {"bwd_quantization_calibration_method", "the same for output gradients"}, s.bwd_quantization_calibration_method);
  s.drhs_grad_quantization_calibration_method =
      section.take({"drhs_grad_quantization_calibration_method",
                    "the same for the gradient that gives the weight gradient; \"\" = as the other gradient"},
                   s.drhs_grad_quantization_calibration_method);
  s.bwd_quantization_dtype =
      section.take_choice({"bwd_quantization_dtype", "type of quantized gradients under fp8_full"},
                          s.bwd_quantization_dtype, {"e5m2", "e4m3"});
  s.bwd_delayed_scaling = section.take(
      {"bwd_delayed_scaling", "the range of output gradients from a history of their maxima instead of measured"},
      s.bwd_delayed_scaling);
  s.bwd_delayed_scaling_history =
      section.take_int({"bwd_delayed_scaling_history", "length of that history", "steps"}, s.bwd_delayed_scaling_history,
                       between<int64_t>(1, 1 << 20));
  s.bwd_delayed_scaling_margin = section.take_real(
      {"bwd_delayed_scaling_margin", "range = margin × largest of the history"}, s.bwd_delayed_scaling_margin, above(0.0));
  s.bwd_delayed_scaling_init =
      section.take_real({"bwd_delayed_scaling_init", "range of the first step"}, s.bwd_delayed_scaling_init, above(0.0));
}

void read_rest(Section& section, QuantSettings& s) {
  s.logits_proj_quant_calibration_method = section.take(
      {"logits_proj_quant_calibration_method", "calibration of the head's weight and activation; \"\" = as everywhere"},
      s.logits_proj_quant_calibration_method);
  s.logits_proj_bwd_quant_calibration_method = section.take(
      {"logits_proj_bwd_quant_calibration_method", "calibration of the head's two gradients; \"\" = as everywhere"},
      s.logits_proj_bwd_quant_calibration_method);
  s.quantization_local_shard_count =
      section.take_int({"quantization_local_shard_count",
                        "parts of the token axis of a weight gradient, each with scales of its own; -1 = 1"},
                       s.quantization_local_shard_count, between<int64_t>(-1, 1 << 24));
  s.fp8_accumulation = section.take_choice(
      {"fp8_accumulation",
       "sums of fp8 products: float32, float16 promoted every 128 products (AVX-512 FP16), or 12-bit fixed point (AVX2)"},
      s.fp8_accumulation, {"f32", "fp16x128", "fixed"});
  s.qwix_compat = section.take_choice(
      {"qwix_compat",
       "the reference's arithmetic of scales and codes, \"ieee\": by quotients, \"xla\": by rounded reciprocals, as its "
       "compiler does"},
      s.qwix_compat, {"", "ieee", "xla"});
}

void read_short_form(Section& section, QuantSettings& s) {
  s.dtype = section.take({"dtype", "short form: type of weights and activations of the trunk; \"\" = not used"}, s.dtype);
  s.patterns = section.take(
      {"patterns", "short form: expressions on the paths of the trunk's products; none = all of them"}, s.patterns);
  s.calibration = section.take({"calibration", "short form: how scales are found: " + grammar}, s.calibration);
  s.tile_size = section.take_tiles({"tile_size", "short form: elements of the contracted axis that share a scale"});
  s.bwd_qtype = section.take({"bwd_qtype", "short form: type of gradients; \"\" = they stay as they are"}, s.bwd_qtype);
  s.bwd_stochastic_rounding =
      section.take_choice({"bwd_stochastic_rounding", "noise added to gradients before they are rounded; read by the short form, int8_full, "
                                                      "fp8_full and schemes made like them"},
                          s.bwd_stochastic_rounding, {"", "uniform", "low_bit_uniform"});
}

}  // namespace

QuantSettings read_quant(Document& document) {
  QuantSettings s;
  Section section = document.section("quant");
  const Key name = {"quantization",
                    "name of the scheme; \"rules\" = [[quant.rules]] or the short form alone (the default where they are "
                    "given); \"\" = nothing is quantized"};
  s.quantization = section.take(name, s.quantization);
  read_flags(section, s);
  read_forward_calibrations(section, s);
  read_backward(section, s);
  read_rest(section, s);
  read_short_form(section, s);
  s.rules = read_rules(document);
  // Without a scheme's name, rules and the short form are what is asked for; in force is then "rules", which reads back.
  if (!section.has("quantization") && !(s.rules.empty() && s.dtype.empty())) {
    s.quantization = "rules";
    section.settle(name, "\"rules\"");
  }
  for (const std::string& key : section.given()) s.places.emplace(key, section.place_of(key));
  refuse_inherited_none(section, s);
  refuse_idle_keys(document, section, s);
  if (s.quantization == "rules" && s.rules.empty() && s.dtype.empty())
    section.refuse("quantization", "quantization = \"rules\" in section [quant] needs at least one [[quant.rules]], or dtype");
  if (!s.dtype.empty() && !s.rules.empty())
    section.refuse("dtype", "dtype in section [quant], the short form, and [[quant.rules]] exclude one another: a rule says "
                            "all that the short form can");
  return s;
}

void hint_at_foreign_names(Document& document) {
  const std::string kv_cache = "the cache of keys and values belongs to inference, which is not offered";
  const std::string sparsity = "N:M sparsity of weights is not offered; leave the key out";
  const std::string self_attention =
      "a plain fp8 cast of queries and keys is not offered: products of two activations are never quantized";
  const std::string engine = "TransformerEngine is not part of Kvant; leave the key out";
  const std::string schedule = "the batch-split schedule and its hand-written quantization are not offered";
  const std::string serving = "checkpoints of quantized weights belong to serving, which is not offered";
  const std::pair<const char*, std::string> hints[] = {
      {"quantize_kvcache", kv_cache},
      {"kv_quant_axis", kv_cache},
      {"kv_quant_dtype", kv_cache},
      {"weight_sparsity_n", sparsity},
      {"weight_sparsity_m", sparsity},
      {"weight_sparsity_start_step", sparsity},
      {"weight_sparsity_update_step", sparsity},
      {"sparsity_rule", sparsity},
      {"experimental_sa_quant_q_fp8", self_attention},
      {"experimental_sa_quant_k_fp8", self_attention},
      {"te_comm_gemm_overlap", engine},
      {"use_batch_split_schedule", schedule},
      {"use_manual_quantization", schedule},
      {"checkpoint_is_quantized", serving},
      {"save_quantized_params_path", serving},
      {"constant_bound_config", "constant ranges are written \"fixed,lo,hi\" in the calibration of each operand"},
      {"replicate_quant_scale", "scales live where their codes do; leave the key out"},
      {"moe_bwd_inkernel_quant", "whether gradients are quantized inside a kernel changes no number here; leave the key out"},
      {"moe_quantize_combine_bwd_method", "experts are not spread over ranks yet; leave the key out"},
      {"moe_quantize_token_all_gather", "experts are not spread over ranks yet; leave the key out"},
      {"num_vocab_tiling", "the head is one product; leave the key out"},
  };
  for (const auto& [name, sentence] : hints) document.hint(name, sentence);
}

}  // namespace kvant::config::detail
