// The reference's older path as rules (maxtext-semantics 1.6): integers as AQT has them, fp8 by delayed scaling. Its layers
// quantize their products wherever they stand, so prediction modules are covered too; the head is not.
#include "base/error.hpp"
#include "config/suggest.hpp"
#include "quant/scheme.hpp"

#include <nlohmann/json.hpp>

#include <algorithm>
#include <cmath>
#include <fstream>

namespace kvant::quant {
namespace {

using config::QuantSettings;
using nlohmann::ordered_json;

const std::string layers_path = "(decoder/.*layers.*|mtp_block/.*)";
const std::string scope = "the older path quantizes the layers, not the head";

Rule typed(const QuantSettings& s, std::vector<std::string> ops, const std::string& weight, const std::string& act) {
  Rule rule;
  rule.module_path = layers_path;
  rule.op_names = std::move(ops);
  rule.weight_qtype = weight;
  rule.act_qtype = act;
  rule.half_step = true;
  rule.optional = true;
  rule.origin = "older path, " + s.quantization;
  return rule;
}

std::vector<Rule> delayed(const QuantSettings& s, const std::string& forward, const std::string& gradient) {
  Rule dense = typed(s, {"dot_general"}, forward, forward);
  dense.bwd_qtype = gradient;
  dense.disable_channelwise_axes = true;
  dense.delayed_forward = dense.delayed_backward = DelayedScaling{};
  return {dense, typed(s, {"gmm", "ragged_dot"}, forward, forward)};
}

std::vector<Rule> int8(const QuantSettings& s) {
  Rule dense = typed(s, {"dot_general"}, "int8", "int8");
  dense.bwd_qtype = "int8";
  dense.bwd_rounding = Rounding::uniform;
  const int64_t shards = s.quantization_local_shard_count;
  dense.plain_wgrad = shards == 0;
  if (shards > 0) dense.wgrad_tile.share = 1.0 / static_cast<double>(shards);
  return {dense, typed(s, {"gmm", "ragged_dot"}, "int8", "int8")};
}

/// One entry of intmp's file: bits of both operands (null: not quantized), factors on their maxima, elements of a tile.
class IntmpEntry {
 public:
  IntmpEntry(const QuantSettings& s, const std::string& pattern, const ordered_json& entry)
      : s_(s), pattern_(pattern), entry_(entry) {
    static const std::vector<std::string> fields = {"w_bits", "a_bits", "w_scale", "a_scale", "tile_size"};
    if (!entry.is_object()) refuse("{}: the entry \"{}\" is no object.", s.quant_cfg_path, pattern);
    for (const auto& [key, value] : entry.items())
      if (std::find(fields.begin(), fields.end(), key) == fields.end()) {
        const std::string nearest = config::nearest(key, fields);
        refuse("{}: the entry \"{}\" has no field \"{}\"{}; there are {}.", s.quant_cfg_path, pattern, key,
               nearest.empty() ? "" : fmt::format(" (\"{}\"?)", nearest), config::listed(fields));
      }
  }

  Rule rule() const {
    const std::string weight = type("w_bits"), act = type("a_bits");
    if (weight.empty() && !act.empty())
      refuse("{}: the entry \"{}\" quantizes activations alone (w_bits is null), which is not offered.", s_.quant_cfg_path, pattern_);
    for (const auto& [field, read] : {std::pair("w_scale", !weight.empty()), std::pair("a_scale", !act.empty()), std::pair("tile_size", !weight.empty())})
      if (!read && entry_.contains(field) && !entry_.at(field).is_null() && number(field, 1) != (std::string_view(field) == "tile_size" ? -1 : 1))
        refuse("{}: {} of the entry \"{}\" would be ignored: the entry gives no {}.", s_.quant_cfg_path, field, pattern_, field[0] == 'a' ? "a_bits" : "w_bits");
    Rule rule = typed(s_, {"dot_general"}, weight, act);
    rule.module_path = pattern_ == "__default__" ? layers_path : pattern_;
    rule.weight_calibration = calibration("w_scale");
    rule.act_calibration = calibration("a_scale");
    const double tile = number("tile_size", -1);
    if (tile != -1 && (tile < 1 || tile != std::floor(tile) || tile > 1e9)) wrong("tile_size", "-1 or a count of at least 1");
    if (tile > 0) rule.act_tile.contracted.count = rule.weight_tile.contracted.count = static_cast<int64_t>(tile);
    rule.origin = fmt::format("{}, \"{}\"", s_.quant_cfg_path, pattern_);
    if (rule.leaves_plain()) rule.reason = "quant_cfg_path gives it no bits";
    return rule;
  }

 private:
  [[noreturn]] void wrong(const char* field, const char* accepted) const {
    refuse("{}: {} of the entry \"{}\" must be {}; found {}.", s_.quant_cfg_path, field, pattern_, accepted,
           entry_.at(field).dump(-1, ' ', false, ordered_json::error_handler_t::replace));
  }
  double number(const char* field, double fallback) const {
    if (!entry_.contains(field) || entry_.at(field).is_null()) return fallback;
    if (!entry_.at(field).is_number()) wrong(field, "a number");
    return entry_.at(field).get<double>();
  }
  std::string type(const char* field) const {
    const double bits = number(field, 0);
    if (bits == 0 && (!entry_.contains(field) || entry_.at(field).is_null())) return {};
    if (bits != std::floor(bits) || bits < 2 || bits > 8) wrong(field, "null or a number of bits from 2 to 8");
    return fmt::format("int{}", static_cast<int>(bits));
  }
  std::string calibration(const char* field) const {
    const double scale = number(field, 1);
    if (!(scale > 0) || scale > 1) wrong(field, "above 0 and at most 1");
    return scale == 1 ? "absmax" : fmt::format("absmax,{}", scale);
  }

  const QuantSettings& s_;
  const std::string& pattern_;
  const ordered_json& entry_;
};

/// The last entry that matches wins, so the rules stand in reverse; "__default__" is for what none matches.
std::vector<Rule> intmp(const QuantSettings& s) {
  std::ifstream in(s.quant_cfg_path, std::ios::binary);
  if (!in) refuse("{}: the file {} cannot be read.", s.place("quant_cfg_path"), s.quant_cfg_path);
  std::vector<std::string> keys;
  const auto note_key = [&](int depth, ordered_json::parse_event_t event, ordered_json& parsed) {
    if (event != ordered_json::parse_event_t::key || depth != 1) return true;
    if (std::ranges::find(keys, parsed.get<std::string>()) != keys.end())
      refuse("{}: {} has two entries \"{}\"; the second would replace the first.", s.place("quant_cfg_path"), s.quant_cfg_path, parsed.get<std::string>());
    keys.push_back(parsed.get<std::string>());
    return true;
  };
  const ordered_json file = ordered_json::parse(in, note_key, false);
  if (file.is_discarded() || !file.is_object())
    refuse("{}: {} is no JSON object of entries by module.", s.place("quant_cfg_path"), s.quant_cfg_path);
  std::vector<Rule> rules;
  for (const auto& [pattern, entry] : file.items()) {
    if (pattern == "__default__") continue;
    rules.insert(rules.begin(), IntmpEntry(s, pattern, entry).rule());
    rules.front().optional = false;
  }
  if (file.contains("__default__")) {
    const std::string pattern = "__default__";
    rules.push_back(IntmpEntry(s, pattern, file.at("__default__")).rule());
  }
  rules.push_back(plain_rule(s, ".*", {"gmm", "ragged_dot"}, "intmp covers the dense products only"));
  return rules;
}

std::vector<Rule> rules_of(const QuantSettings& s) {
  if (s.quantization == "int8") return int8(s);
  if (s.quantization == "int8w") return {typed(s, {"dot_general"}, "int8", "")};
  if (s.quantization == "int4w") return {typed(s, {"dot_general"}, "int4", "")};
  if (s.quantization == "fp8") return delayed(s, "float8_e4m3fn", "float8_e5m2");
  if (s.quantization == "nanoo_fp8") return delayed(s, "float8_e4m3fnuz", "float8_e5m2fnuz");
  if (s.quantization == "intmp") return intmp(s);
  refuse("{}: the older path does not know \"{}\".", s.place("quantization"), s.quantization);
}

}  // namespace

std::vector<Rule> legacy_rules(const QuantSettings& s) {
  refuse_unread_flags(s, {.shards = s.quantization == "int8"}, "of the older path reads no such flag",
                      "use_qwix_quantization = true with fp8_full or int8_full reads it");
  std::vector<Rule> rules = rules_of(s);
  rules.insert(rules.begin(), plain_rule(s, "decoder/logits_dense.*", {"dot_general"}, scope));
  if (s.quantization == "int8w" || s.quantization == "int4w")
    rules.push_back(plain_rule(s, ".*", {"gmm", "ragged_dot"}, s.quantization + " covers the dense products only"));
  return rules;
}

}  // namespace kvant::quant
