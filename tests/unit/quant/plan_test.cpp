#include "quant/plan.hpp"
#include "base/error.hpp"
#include "base/kokkos.hpp"
#include "support/quant_sites.hpp"

#include <catch2/catch_test_macros.hpp>
#include <catch2/matchers/catch_matchers_string.hpp>
#include <nlohmann/json.hpp>

using namespace kvant;
using namespace kvant::quant;
using Catch::Matchers::ContainsSubstring;
using kvant::test::QuantSites;

namespace {

config::QuantSettings settings(const char* scheme) {
  config::QuantSettings s;
  s.quantization = scheme;
  return s;
}

Rule user_rule(const char* path, const char* qtype = "", std::vector<std::string> ops = {}) {
  Rule rule;
  rule.module_path = path;
  rule.op_names = std::move(ops);
  rule.weight_qtype = rule.act_qtype = rule.bwd_qtype = qtype;
  rule.origin = "run.toml:3:1";
  return rule;
}

const Decision& decision(const Plan& plan, const MatmulSite& site) {
  for (const Decision& d : plan.decisions())
    if (d.site == &site) return d;
  throw std::runtime_error("no decision");
}

bool quantized(const Plan& plan, QuantSites& sites, const char* path, int layer = -1, const char* op = "") {
  return decision(plan, sites.at(path, layer, op)).recipe != nullptr;
}

constexpr const char* gate = "decoder/moe_layers/DeepSeekMoeBlock_0/MoeBlock_0/gate";
constexpr const char* experts = "decoder/moe_layers/DeepSeekMoeBlock_0/MoeBlock_0";
constexpr const char* shared = "decoder/moe_layers/DeepSeekMoeBlock_0/shared_experts/wo";
constexpr const char* mtp = "mtp_block/mtp_layer_1/mtp_1_transformer_layer/self_attention/wq_a";

}  // namespace

TEST_CASE("without a scheme every site stays plain and the plan says why", "[quant]") {
  QuantSites sites;
  const Plan plan = Plan::resolve(sites.table, {});
  CHECK(plan.quantized_count() == 0);
  for (const Decision& d : plan.decisions()) CHECK_FALSE(d.reason.empty());
}

TEST_CASE("int8 is the dense products of the layers, range 127.5, experts plain", "[quant]") {  // reference trap 3
  QuantSites sites;
  const Plan plan = Plan::resolve(sites.table, settings("int8"));
  CHECK(quantized(plan, sites, "decoder/dense_layers/mlp/wi_0", 0));
  CHECK(quantized(plan, sites, "decoder/moe_layers/self_attention/wkv_b", 1));
  CHECK(quantized(plan, sites, shared, 0));
  CHECK_FALSE(quantized(plan, sites, experts, 0, "gmm0"));
  CHECK_FALSE(quantized(plan, sites, gate, 0));
  CHECK_FALSE(quantized(plan, sites, "decoder/logits_dense"));
  CHECK_FALSE(quantized(plan, sites, mtp));
  const Recipe& r = *decision(plan, sites.at(shared, 0)).recipe;
  CHECK(r.weight.law.bound == 127.5f);
  CHECK(r.grad_input.law.bound == 127.5f);
  CHECK(r.act.granularity == Granularity::per_row);
  CHECK(r.weight.granularity == Granularity::per_column);
  CHECK_THAT(decision(plan, sites.at(experts, 0, "gmm1")).reason, ContainsSubstring("not the experts"));
}

TEST_CASE("int8_full covers experts, and MTP and logits when asked, with range 127", "[quant]") {
  QuantSites sites;
  config::QuantSettings s = settings("int8_full");
  Plan plan = Plan::resolve(sites.table, s);
  CHECK(quantized(plan, sites, experts, 0, "gmm2"));
  CHECK_FALSE(quantized(plan, sites, mtp));
  CHECK_FALSE(quantized(plan, sites, "decoder/logits_dense"));
  CHECK_THAT(decision(plan, sites.at(mtp)).reason, ContainsSubstring("quantize_mtp is false"));
  CHECK_THAT(decision(plan, sites.at("decoder/logits_dense")).reason,
             ContainsSubstring("quantize_logits_proj is false"));
  s.quantize_mtp = s.quantize_logits_proj = true;
  plan = Plan::resolve(sites.table, s);
  CHECK(quantized(plan, sites, mtp));
  CHECK(quantized(plan, sites, "mtp_block/mtp_layer_1/projection"));
  CHECK(quantized(plan, sites, "decoder/logits_dense", -1, "dot_general0"));
  CHECK(quantized(plan, sites, "decoder/logits_dense", -1, "dot_general1"));
  const Recipe& r = *decision(plan, sites.at(experts, 1, "gmm0")).recipe;
  CHECK(r.act.qtype == "int8");
  CHECK(r.act.law.bound == 127.0f);
  CHECK(r.weight.granularity == Granularity::per_expert_column);
  CHECK(r.grad_weight.granularity == Granularity::per_expert_column);
  int plain = 0;
  for (const Decision& d : plan.decisions()) {
    if (d.recipe) continue;
    ++plain;
    CHECK_FALSE(d.reason.empty());
  }
  CHECK(plain == 3 + 8);  // three gates, four attention blocks of two products
}

TEST_CASE("fp8_full reads its calibrations from the flags", "[quant]") {
  QuantSites sites;
  config::QuantSettings s = settings("fp8_full");
  s.weight_quantization_calibration_method = "fixed,224";
  s.act_quantization_calibration_method = "fixed,-4,4";
  s.drhs_grad_quantization_calibration_method = "absmax,0.9";
  s.quantize_logits_proj = true;
  s.logits_proj_quant_calibration_method = "absmax";
  const Plan plan = Plan::resolve(sites.table, s);
  const Recipe& r = *decision(plan, sites.at(shared, 0)).recipe;
  CHECK(r.weight.qtype == "float8_e4m3fn");
  CHECK(r.grad_input.qtype == "float8_e5m2");
  CHECK(r.weight.granularity == Granularity::per_tensor);
  CHECK(r.act.calibration.text == "fixed,-4,4");
  CHECK(r.grad_input.calibration.text == "absmax");
  CHECK(r.grad_weight.calibration.text == "absmax,0.9");
  CHECK(r.grad_weight.granularity == Granularity::per_column);
  CHECK(decision(plan, sites.at("decoder/logits_dense")).recipe->weight.calibration.text == "absmax");
  s.bwd_quantization_dtype = "e4m3";
  CHECK(decision(Plan::resolve(sites.table, s), sites.at(shared, 0)).recipe->grad_weight.qtype == "float8_e4m3fn");
}

TEST_CASE("a flag that the scheme would ignore is refused", "[quant]") {
  QuantSites sites;
  config::QuantSettings s = settings("int8");
  s.act_quantization_calibration_method = "fixed,4";
  CHECK_THROWS_WITH(Plan::resolve(sites.table, s),
                    ContainsSubstring("act_quantization_calibration_method") && ContainsSubstring("int8_full"));
  s = settings("int8");
  s.quantize_mtp = true;
  CHECK_THROWS_WITH(Plan::resolve(sites.table, s), ContainsSubstring("quantize_mtp"));
  s = settings("int8_full");
  s.bwd_quantization_dtype = "e4m3";
  CHECK_THROWS_WITH(Plan::resolve(sites.table, s), ContainsSubstring("bwd_quantization_dtype"));
  s = settings("int8_full");
  s.quantization_local_shard_count = 2;
  CHECK_THROWS_WITH(Plan::resolve(sites.table, s), ContainsSubstring("quantization_local_shard_count"));
  s = settings("fp8_full");
  s.act_quantization_calibration_method = "fixed,-1,3";
  CHECK_THROWS_WITH(Plan::resolve(sites.table, s), ContainsSubstring("not symmetric") && ContainsSubstring("fixed,3"));
  CHECK_THROWS_WITH(Plan::resolve(sites.table, settings("int8_ful")), ContainsSubstring("int8_full"));
}

TEST_CASE("the router is never caught by a catch-all unless the flag asks for it", "[quant]") {  // report D14
  QuantSites sites;
  config::QuantSettings s = settings("int8_full");
  Plan plan = Plan::resolve(sites.table, s, {user_rule(".*", "int8")});
  CHECK_FALSE(quantized(plan, sites, gate, 0));
  CHECK_THAT(decision(plan, sites.at(gate, 0)).reason, ContainsSubstring("quantize_router_proj is false"));
  CHECK_THROWS_WITH(Plan::resolve(sites.table, s, {user_rule(".*/gate", "int8")}),
                    ContainsSubstring("quantize_router_proj = true"));
  s.quantize_router_proj = true;
  CHECK(quantized(Plan::resolve(sites.table, s), sites, gate, 0));
}

TEST_CASE("attention stays plain under a catch-all, and a rule that names it is refused", "[quant]") {
  QuantSites sites;
  const char* attention = "decoder/moe_layers/self_attention/attention_op";
  const Plan plan = Plan::resolve(sites.table, settings("int8_full"), {user_rule(".*", "int8")});
  CHECK_FALSE(quantized(plan, sites, attention, 0, "einsum1"));
  CHECK_THAT(decision(plan, sites.at(attention, 0)).reason, ContainsSubstring("two activations"));
  CHECK_THROWS_WITH(Plan::resolve(sites.table, settings("int8_full"), {user_rule(".*attention_op", "int8")}),
                    ContainsSubstring("never quantized"));
  CHECK_THROWS_WITH(Plan::resolve(sites.table, settings("int8_full"), {user_rule(".*", "int8", {"einsum"})}),
                    ContainsSubstring("never quantized"));
}

TEST_CASE("the first rule that matches wins; a rule without types leaves plain; one that does nothing is an error",
          "[quant]") {
  QuantSites sites;
  Rule first_layer = user_rule("decoder/moe_layers/.*");
  first_layer.layers = "0";
  const Plan plan =
      Plan::resolve(sites.table, settings("int8_full"), {first_layer, user_rule(".*/wo", "float8_e4m3fn")});
  CHECK_FALSE(quantized(plan, sites, shared, 0));
  CHECK(decision(plan, sites.at(shared, 1)).recipe->act.qtype == "float8_e4m3fn");
  CHECK(decision(plan, sites.at("decoder/dense_layers/mlp/wi_1", 0)).recipe->act.qtype == "int8");
  CHECK_THAT(decision(plan, sites.at(shared, 1)).rule, ContainsSubstring("run.toml:3:1"));

  const auto refused = [&](std::vector<Rule> rules, const char* text) {  // report D03
    CHECK_THROWS_WITH(Plan::resolve(sites.table, settings("int8_full"), rules), ContainsSubstring(text));
  };
  refused({user_rule("decoder/lm_head")}, "matches no site");
  refused({user_rule(".*/wo"), user_rule("decoder/dense_layers/mlp/wo", "int8")}, "decides nothing");
  refused({user_rule(".*/wo", "int9")}, "\"int9\" is not known (\"int8\"?)");
  Rule act_alone = user_rule(".*/wo");
  act_alone.act_qtype = "int8";
  refused({act_alone}, "has types but none for the weight");
  Rule optional = user_rule("decoder/lm_head");
  optional.optional = true;
  CHECK_NOTHROW(Plan::resolve(sites.table, settings("int8_full"), {optional}));
}

TEST_CASE("qwix_compat gives the reference's arithmetic: its guard, half steps, scales shared by the experts",
          "[quant]") {
  QuantSites sites;
  config::QuantSettings s = settings("int8_full");
  s.qwix_compat = "xla";
  const Plan plan = Plan::resolve(sites.table, s);
  const Recipe& r = *decision(plan, sites.at(experts, 0, "gmm0")).recipe;
  CHECK(r.weight.granularity == Granularity::per_column);
  CHECK(r.weight.law.bound == 127.5f);
  CHECK(r.weight.law.scale_by_reciprocal);
  CHECK(r.weight.law.reference_guard);
  sites.at(shared, 0).compute = DType::bf16;
  CHECK_THROWS_WITH(Plan::resolve(sites.table, s), ContainsSubstring("qwix_compat") && ContainsSubstring("bfloat16"));
}

TEST_CASE("the JSON of a plan has every site, types or a reason", "[quant]") {
  QuantSites sites;
  const Plan plan = Plan::resolve(sites.table, settings("fp8_full"));
  const auto json = nlohmann::json::parse(plan.json());
  const auto& list = json.at("sites");
  REQUIRE(list.size() == sites.table.sites().size());
  double share = 0;
  for (const auto& site : list) {
    for (const char* key : {"path", "op", "layer", "rule", "weight", "act", "grad_input", "grad_weight", "reason"})
      REQUIRE(site.contains(key));
    share += site.at("flops_share").get<double>();
    if (site.at("weight").is_null()) {
      CHECK_FALSE(site.at("reason").get<std::string>().empty());
      CHECK(site.at("act").is_null());
    } else {
      for (const char* key : {"weight", "act", "grad_input", "grad_weight"})
        for (const char* field : {"qtype", "calibration", "granularity"})
          CHECK_FALSE(site.at(key).at(field).get<std::string>().empty());
      CHECK(site.at("grad_weight").at("qtype") == "float8_e5m2");
    }
  }
  CHECK(std::abs(share - 1) < 1e-9);
  const std::string table = plan.table();
  CHECK_THAT(table,
             ContainsSubstring("decoder/moe_layers/DeepSeekMoeBlock_0/MoeBlock_0/gate") && ContainsSubstring("0-1") &&
                 ContainsSubstring(
                     "w/expert_column x/row: float8_e4m3fn absmax, dx/row dw/expert_column: float8_e5m2 absmax") &&
                 ContainsSubstring("Forward GEMM FLOPs: "));
}

TEST_CASE("binding replaces the ops of the quantized sites, and the plan says what is emulated", "[quant]") {
  QuantSites sites, others;
  const Plan fp8 = Plan::resolve(sites.table, settings("fp8_full"));
  fp8.bind(sites.table);
  CHECK(sites.at(shared, 0).bound->arithmetic(Arm::forward) == DType::f32);
  CHECK(sites.at(gate, 0).bound == nullptr);  // what was bound stays; here nothing was
  CHECK_THROWS_WITH(fp8.bind(others.table), ContainsSubstring("another model"));
  const Plan int8 = Plan::resolve(sites.table, settings("int8_full"));
  int8.bind(sites.table);
  CHECK(sites.at(shared, 0).bound->arithmetic(Arm::wgrad) == DType::i8);
  if (exec_is_host) CHECK_THAT(fp8.remark(), ContainsSubstring("CPUs have no fp8 arithmetic"));
  CHECK(int8.remark().empty());
  CHECK(Plan::resolve(sites.table, {}).remark().empty());
}
