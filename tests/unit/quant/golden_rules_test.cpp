// Which rule each product gets, against what the real libraries recorded: Qwix' matcher over rule tables (our protections
// off), and MaxText's own lookups over a whole model, configuration by configuration.
#include "base/error.hpp"
#include "config/settings.hpp"
#include "models/model.hpp"
#include "quant/plan.hpp"

#include <catch2/catch_test_macros.hpp>
#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include <fstream>
#include <map>

using namespace kvant;
using namespace kvant::quant;
using nlohmann::json;

namespace {

json read(const char* name) {
  std::ifstream in(std::string(KVANT_SOURCE_DIR) + "/tests/reference/data/" + name);
  REQUIRE(in);
  return json::parse(in);
}

std::string text_or_empty(const json& rule, const char* key) {
  return !rule.contains(key) || rule.at(key).is_null() ? "" : rule.at(key).get<std::string>();
}

Rule rule_of(const json& given) {
  Rule rule;
  rule.module_path = given.at("module_path");
  rule.op_names = given.at("op_names").get<std::vector<std::string>>();
  rule.weight_qtype = text_or_empty(given, "weight_qtype");
  rule.act_qtype = text_or_empty(given, "act_qtype");
  rule.bwd_qtype = text_or_empty(given, "bwd_qtype");
  rule.origin = "golden";
  return rule;
}

config::ModelSettings ds3_tiny() {
  config::ModelSettings m;
  m.vocab_size = 128, m.max_target_length = 32;
  m.base_emb_dim = 64, m.base_num_query_heads = 4;
  m.base_num_decoder_layers = 3, m.first_num_dense_layers = 1;
  m.base_mlp_dim = 128, m.base_moe_mlp_dim = 32;
  m.num_experts = 8, m.num_experts_per_tok = 2, m.shared_experts = 1;
  m.q_lora_rank = 32, m.kv_lora_rank = 16, m.qk_nope_head_dim = 16, m.qk_rope_head_dim = 8, m.v_head_dim = 16;
  m.routed_score_func = config::ScoreFunction::sigmoid;
  m.float32_gate_logits = false;
  m.mtp_num_layers = 1;
  return m;
}

struct Line {
  std::string path, op, rule;
  bool operator==(const Line&) const = default;
};

/// A rule as the recording describes it.
std::string described(const Rule& rule) {
  if (rule.leaves_plain()) return rule.module_path + ": left plain";
  const std::string tile = rule.wgrad_tile.given() ? " dW tile=" + to_string(rule.wgrad_tile) : "";
  return fmt::format("{}: w={} a={} g={}{} calib w={} a={} g={}", rule.module_path, rule.weight_qtype, rule.act_qtype, rule.bwd_qtype,
                     tile, rule.weight_calibration, rule.act_calibration, rule.bwd_calibration);
}

/// Dot products and blocks of experts in order. scanned: one body for each stack.
std::vector<Line> lines_of(const Plan& plan, bool scanned, bool with_experts) {
  std::vector<Line> lines;
  for (const Decision& d : plan.decisions()) {
    const MatmulSite& site = *d.site;
    if (site.kind == SiteKind::attention || (site.kind == SiteKind::grouped && !with_experts)) continue;
    Line line{scanned ? site.path : site.numbered_path(), site.kind == SiteKind::grouped ? site.op_name() : site.op, "no rule"};
    const Rule* rule = d.rule_index < 0 ? nullptr : &plan.rules()[static_cast<std::size_t>(d.rule_index)];
    if (rule != nullptr && !rule->explains) line.rule = described(*rule);
    CHECK((d.recipe != nullptr) == (rule != nullptr && !rule->leaves_plain()));
    if (site.kind == SiteKind::grouped && !lines.empty() && lines.back() == line) continue;
    if (scanned && std::find(lines.begin(), lines.end(), line) != lines.end()) continue;
    lines.push_back(line);
  }
  return lines;
}

/// The reference's other backend looks up each of a block's three products, with a number.
std::vector<Line> as_ragged_dots(const std::vector<Line>& lines) {
  std::vector<Line> all;
  for (const Line& line : lines)
    for (int i = 0; i < (line.op == "gmm" ? 3 : 1); ++i) all.push_back(line.op == "gmm" ? Line{line.path, "ragged_dot" + std::to_string(i), line.rule} : line);
  return all;
}

}  // namespace

TEST_CASE("rule tables answer as Qwix' matcher did, our protections off", "[quant]") {
  const json file = read("qwix_rules.json");
  std::vector<ReferenceCall> calls;
  for (const json& call : file.at("calls")) calls.push_back({call.at("path"), call.at("op")});
  REQUIRE(file.at("scenarios").size() == 34);
  for (const json& scenario : file.at("scenarios")) {
    INFO(scenario.at("name").get<std::string>());
    std::vector<Rule> rules;
    for (const json& rule : scenario.at("rules")) rules.push_back(rule_of(rule));
    const std::vector<int> matched = match_as_reference(rules, calls);
    std::vector<bool> used(rules.size(), false);
    for (std::size_t i = 0; i < calls.size(); ++i) {
      INFO(i << ": " << calls[i].path << " " << calls[i].op);
      const json& wanted = scenario.at("matched")[i];
      CHECK(matched[i] == (wanted.is_null() ? -1 : wanted.get<int>()));
      const auto index = static_cast<std::size_t>(matched[i]);
      const bool quantized = matched[i] >= 0 && !rules[index].weight_qtype.empty();
      CHECK(quantized == (scenario.at("quantized")[i].get<int>() == 1));
      if (matched[i] >= 0) used[index] = true;
    }
    for (std::size_t i = 0; i < used.size(); ++i)
      CHECK(used[i] != (std::find(scenario.at("unused_rules").begin(), scenario.at("unused_rules").end(), i) != scenario.at("unused_rules").end()));
  }
}

TEST_CASE("every lookup of MaxText's own models is reproduced in order", "[quant]") {
  const json file = read("maxtext_interception.json");
  REQUIRE(file.at("cases").size() == 15);
  for (const auto& [name, recorded] : file.at("cases").items()) {
    INFO(name);
    const auto has = [&](const char* words) { return name.find(words) != std::string::npos; };
    config::ModelSettings model_settings = ds3_tiny();
    if (has("q_lora_rank=0")) model_settings.q_lora_rank = 0;
    model_settings.use_sliced_mla_proj = has("use_sliced_mla_proj");
    config::QuantSettings quant;
    quant.quantization = name.substr(0, name.find(' '));
    quant.quantize_router_proj = !has("quantize_router_proj=false");
    quant.quantize_mtp = has("quantize_mtp");
    quant.quantize_logits_proj = has("quantize_logits_proj");
    const std::unique_ptr<Model> model = make_model(model_settings);
    const Plan plan = Plan::resolve(model->sites(), quant);
    std::vector<Line> ours = lines_of(plan, has("scan_layers=true"), !has("sparse_matmul=false"));
    if (has("ragged_dot")) ours = as_ragged_dots(ours);
    std::vector<Line> theirs;
    for (const json& line : recorded)
      theirs.push_back({file.at("paths")[line[0].get<std::size_t>()], line[1], file.at("rules")[line[2].get<std::size_t>()]});
    REQUIRE(ours.size() == theirs.size());
    for (std::size_t i = 0; i < ours.size(); ++i) {
      INFO(i);
      CHECK(ours[i].path == theirs[i].path);
      CHECK(ours[i].op == theirs[i].op);
      CHECK(ours[i].rule == theirs[i].rule);
    }
  }
}
