// What each named scheme stands for: its rules (maxtext-semantics 1.3, 1.6), and the flags that it refuses to ignore.
#include "quant/scheme.hpp"

#include "base/error.hpp"
#include "quant/plan.hpp"
#include "support/quant_sites.hpp"
#include "support/temporary_folder.hpp"

#include <catch2/catch_test_macros.hpp>
#include <catch2/matchers/catch_matchers_string.hpp>

#include <fstream>

using namespace kvant;
using namespace kvant::quant;
using Catch::Matchers::ContainsSubstring;
using kvant::test::QuantSites;

namespace {

config::QuantSettings settings(const std::string& name, bool older = false) {
  config::QuantSettings s;
  s.quantization = name;
  s.use_qwix_quantization = !older;
  return s;
}

/// The rules with types.
std::vector<Rule> typed(const config::QuantSettings& s) {
  std::vector<Rule> rules = s.use_qwix_quantization ? use_scheme(s.quantization).rules(s) : legacy_rules(s);
  std::erase_if(rules, [](const Rule& r) { return r.leaves_plain(); });
  return rules;
}

void refused(const config::QuantSettings& s, const std::string& flag, const std::string& instead) {
  INFO(s.quantization << " " << flag);
  CHECK_THROWS_WITH(typed(s), ContainsSubstring(flag) && ContainsSubstring("would be ignored") && ContainsSubstring(instead));
}

const Decision& decision(const Plan& plan, const MatmulSite& site) {
  for (const Decision& d : plan.decisions())
    if (d.site == &site) return d;
  throw std::runtime_error("no decision");
}

constexpr const char* experts = "decoder/moe_layers/DeepSeekMoeBlock_0/MoeBlock_0";
constexpr const char* shared = "decoder/moe_layers/DeepSeekMoeBlock_0/shared_experts/wo";

}  // namespace

TEST_CASE("the reference's dense schemes: one type, absmax, one tile for each shard", "[quant]") {
  const std::pair<const char*, const char*> schemes[] = {{"int4", "int4"},
                                                         {"int8", "int8"},
                                                         {"fp4", "float4_e2m1fn"},
                                                         {"fp8", "float8_e4m3fn"},
                                                         {"fp8_e4m3", "float8_e4m3fn"},
                                                         {"fp8_e5m2", "float8_e5m2"}};
  for (const auto& [name, qtype] : schemes) {
    INFO(name);
    config::QuantSettings s = settings(name);
    const std::vector<Rule> rules = typed(s);
    REQUIRE(rules.size() == 1);
    const Rule& r = rules.front();
    CHECK(r.module_path == "decoder/.*layers.*");
    CHECK(r.op_names == std::vector<std::string>{"dot_general"});
    CHECK((r.weight_qtype == qtype && r.act_qtype == qtype && r.bwd_qtype == qtype));
    CHECK((r.weight_calibration == "absmax" && r.act_calibration == "absmax" && r.bwd_calibration == "absmax"));
    CHECK(r.wgrad_tile == config::TileSize{0, 1.0});
    CHECK(r.half_step == std::string(name).starts_with("int"));
    s.quantization_local_shard_count = 4;
    CHECK(typed(s).front().wgrad_tile == config::TileSize{0, 0.25});
    s.quantization_local_shard_count = -1;
    s.quantize_logits_proj = true;
    refused(s, "quantize_logits_proj = true", "fp8_full");
    s = settings(name);
    s.quantization_calibration_method = s.act_quantization_calibration_method = "fixed,4";
    refused(s, "quantization_calibration_method = \"fixed,4\"", "fp8_full and int8_full read it");
  }
}

TEST_CASE("delayed scaling: one scale for each tensor, types as declared, no calibration", "[quant]") {
  for (const auto& [name, forward, gradient] : {std::tuple("fp8_gpu", "float8_e4m3fn", "float8_e5m2"),
                                                std::tuple("fp8_nanoo", "float8_e4m3fnuz", "float8_e5m2fnuz")}) {
    INFO(name);
    config::QuantSettings s = settings(name);
    const std::vector<Rule> rules = typed(s);
    REQUIRE(rules.size() == 1);
    CHECK((rules[0].weight_qtype == forward && rules[0].act_qtype == forward && rules[0].bwd_qtype == gradient));
    CHECK((rules[0].delayed_forward && rules[0].delayed_backward && rules[0].disable_channelwise_axes));
    QuantSites sites;
    const Plan plan = Plan::resolve(sites.table, s);
    const Recipe& r = *decision(plan, sites.at(shared, 0)).recipe;
    CHECK(r.act.scaling == Scaling::delayed);
    CHECK(r.grad_weight.scaling == Scaling::delayed);
    CHECK(r.weight.granularity == Granularity::per_tensor);
    s.bwd_quantization_calibration_method = "fixed,1";
    refused(s, "bwd_quantization_calibration_method", "fp8_full reads calibrations");
    s = settings(name);
    s.quantization_local_shard_count = 2;
    refused(s, "quantization_local_shard_count = 2", "fp8_full");
  }
}

TEST_CASE("fp8_full and what has its shape", "[quant]") {
  for (const auto& [name, forward, gradient] :
       {std::tuple("fp8_full", "float8_e4m3fn", "float8_e5m2"), std::tuple("int8_full", "int8", "int8"),
        std::tuple("mxfp8", "mxfp8", "mxfp8"), std::tuple("mxfp4", "mxfp4", "mxfp4")}) {
    INFO(name);
    config::QuantSettings s = settings(name);
    s.quantize_mtp = s.quantize_logits_proj = true;
    s.weight_quantization_calibration_method = "absmax,0.5";
    s.logits_proj_bwd_quant_calibration_method = "rms,7";
    const std::vector<Rule> rules = typed(s);
    REQUIRE(rules.size() == 2);
    CHECK(rules[0].module_path == "decoder/logits_dense.*");
    CHECK(rules[0].weight_calibration == "absmax,0.5");
    CHECK((rules[0].bwd_calibration == "rms,7" && rules[0].drhs_calibration == "rms,7"));
    CHECK(rules[1].module_path == "(decoder/.*layers.*|mtp_block/.*)");
    CHECK(rules[1].op_names == std::vector<std::string>{"dot_general", "gmm", "ragged_dot"});
    CHECK((rules[1].weight_qtype == forward && rules[1].act_qtype == forward && rules[1].bwd_qtype == gradient));
    CHECK_FALSE(rules[1].wgrad_tile.given());
    s.quantization_local_shard_count = 2;
    refused(s, "quantization_local_shard_count = 2", "bwd_weight_grad_tile_size");
    if (std::string(name) == "fp8_full") continue;
    s = settings(name);
    s.bwd_quantization_dtype = "e4m3";
    refused(s, "bwd_quantization_dtype = \"e4m3\"", "fp8_full reads bwd_quantization_dtype");
  }
  config::QuantSettings s = settings("fp8_full");
  s.bwd_delayed_scaling = true;
  s.bwd_delayed_scaling_history = 16;
  const Rule r = typed(s).front();
  CHECK_FALSE(r.delayed_forward);
  REQUIRE(r.delayed_backward);
  CHECK(r.delayed_backward->history == 16);
  CHECK(typed(settings("mxfp4")).front().bwd_rounding == Rounding::uniform);
}

TEST_CASE("mx types bring their blocks", "[quant]") {
  QuantSites sites;
  const Plan plan = Plan::resolve(sites.table, settings("mxfp8"));
  const Recipe& r = *decision(plan, sites.at(experts, 0, "gmm1")).recipe;
  CHECK(r.act.contracted == Tile{32, 0});
  CHECK(r.weight.contracted == Tile{32, 0});
  CHECK(r.grad_weight.contracted == Tile{32, 0});
  CHECK(r.weight_residual == Residual::original);  // tiles: the backward reads the operand itself
  CHECK(arithmetic_of(r, Arm::dgrad, false) == "f32 of quantized values");
  CHECK_THAT(plan.table(), ContainsSubstring("w/expert_column[32] x/row[32]") && ContainsSubstring("dx f32 of quantized values"));
}

TEST_CASE("nvfp4_train leaves plain what its page says", "[quant]") {
  QuantSites sites;
  const Plan plan = Plan::resolve(sites.table, settings("nvfp4_train"));
  const auto reason = [&](const char* path, int layer) { return decision(plan, sites.at(path, layer)).reason; };
  CHECK_THAT(reason("decoder/moe_layers/self_attention/wq_b", 0), ContainsSubstring("attention projections"));
  CHECK_THAT(reason("decoder/dense_layers/mlp/wi_0", 0), ContainsSubstring("first layers"));
  CHECK_THAT(reason(shared, 1), ContainsSubstring("last layers"));
  CHECK_THAT(reason("decoder/logits_dense", -1), ContainsSubstring("logits"));
  config::Document document = config::Document::parse("[quant.plugins.nvfp4_train]\nplain_first_layers = 0\nplain_last_layers = 1\n", "a");
  configure_plugins(document, settings("nvfp4_train"));
  document.finish();
  const Plan more = Plan::resolve(sites.table, settings("nvfp4_train"));
  const Recipe& r = *decision(more, sites.at(shared, 0)).recipe;
  CHECK(r.weight.contracted == Tile{16, 0});
  CHECK(r.weight.other == Tile{16, 0});
  CHECK(r.act.contracted == Tile{16, 0});
  CHECK_FALSE(r.act.other.given());
  CHECK(r.wgrad == Transform::hadamard16);
  CHECK(r.forward == Transform::none);
  CHECK(r.grad_input.rounding == Rounding::uniform);
  CHECK(decision(more, sites.at("decoder/dense_layers/mlp/wi_0", 0)).recipe != nullptr);
  config::QuantSettings s = settings("nvfp4_train");
  s.quantize_logits_proj = true;
  refused(s, "quantize_logits_proj = true", "fp8_full");
}

TEST_CASE("the older path", "[quant]") {
  const std::vector<Rule> int8 = typed(settings("int8", true));
  REQUIRE(int8.size() == 2);
  CHECK((int8[0].bwd_qtype == "int8" && int8[0].bwd_rounding == Rounding::uniform && int8[0].half_step));
  CHECK((int8[1].op_names.front() == "gmm" && int8[1].bwd_qtype.empty()));
  config::QuantSettings s = settings("int8", true);
  s.quantization_local_shard_count = 0;
  CHECK(typed(s).front().plain_wgrad);
  s.quantize_mtp = true;
  refused(s, "quantize_mtp = true", "use_qwix_quantization = true");
  for (const auto& [name, weight] : {std::pair("int8w", "int8"), std::pair("int4w", "int4")}) {
    const std::vector<Rule> rules = typed(settings(name, true));
    REQUIRE(rules.size() == 1);
    CHECK((rules[0].weight_qtype == weight && rules[0].act_qtype.empty() && rules[0].bwd_qtype.empty()));
  }
  CHECK(typed(settings("fp8", true)).front().delayed_forward);
  CHECK(typed(settings("nanoo_fp8", true)).front().bwd_qtype == "float8_e5m2fnuz");
  QuantSites sites;
  const Plan plan = Plan::resolve(sites.table, settings("int4w", true));
  const Recipe& r = *decision(plan, sites.at(shared, 0)).recipe;
  CHECK(r.weight.quantized());
  CHECK_FALSE(r.act.quantized());
  CHECK(r.weight_residual == Residual::original);
  CHECK(arithmetic_of(r, Arm::wgrad, false) == "f32");
  CHECK_THAT(plan.table(), ContainsSubstring("int4 weights alone"));
}

TEST_CASE("intmp: the last entry that matches wins, mistakes in its file are named", "[quant]") {
  const kvant::test::TemporaryFolder folder;
  const auto with = [&](const std::string& text) {
    config::QuantSettings s = settings("intmp", true);
    s.quant_cfg_path = (folder.path() / "bits.json").string();
    std::ofstream(s.quant_cfg_path) << text;
    return s;
  };
  QuantSites sites;
  const config::QuantSettings s = with(R"({"__default__": {"w_bits": 8, "a_bits": null, "w_scale": 0.5},
    ".*/mlp/.*": {"w_bits": 8, "a_bits": 8}, ".*/mlp/wo": {"w_bits": 4, "a_bits": 8, "tile_size": 32}, ".*/wkv_b": {"w_bits": null, "a_bits": null}})");
  const Plan plan = Plan::resolve(sites.table, s);
  const auto recipe = [&](const char* path) { return decision(plan, sites.at(path, 0)).recipe; };
  CHECK(recipe("decoder/dense_layers/mlp/wo")->weight.qtype == "int4");
  CHECK(recipe("decoder/dense_layers/mlp/wo")->weight.contracted.size == 32);
  CHECK(recipe("decoder/dense_layers/mlp/wi_0")->weight.qtype == "int8");
  CHECK(recipe("decoder/dense_layers/self_attention/wkv_b") == nullptr);
  CHECK(recipe("decoder/dense_layers/self_attention/wq_a")->weight.calibration.text == "absmax,0.5");
  const auto broken = [&](const std::string& text, const char* sentence) {
    INFO(text);
    CHECK_THROWS_WITH(legacy_rules(with(text)), ContainsSubstring("bits.json") && ContainsSubstring(sentence));
  };
  broken("[1]", "no JSON object");
  broken("{", "no JSON object");
  broken(R"({".*": 3})", "is no object");
  broken(R"({".*": {"w_bit": 3}})", "no field \"w_bit\" (\"w_bits\"?)");
  broken(R"({".*": {"w_bits": 9}})", "from 2 to 8; found 9");
  broken(R"({".*": {"w_bits": "8"}})", "a number; found \"8\"");
  broken(R"({".*": {"a_bits": 8}})", "activations alone");
  broken(R"({".*": {"w_bits": 8, "w_scale": 2}})", "above 0 and at most 1");
  broken(R"({".*": {"w_bits": 8, "tile_size": 0}})", "-1 or a count");
  broken(R"({".*": {"w_bits": 8, "a_scale": 0.5}})", "a_scale of the entry \".*\" would be ignored: the entry gives no a_bits");
  broken(R"({"__default__": {"w_bits": null, "tile_size": 32}})", "tile_size of the entry \"__default__\" would be ignored: the entry gives no w_bits");
  broken(R"({".*": {"w_bits": 8}, ".*": {"w_bits": 4}})", "has two entries \".*\"");
  config::QuantSettings none = settings("intmp", true);
  none.quant_cfg_path = "/no/such.json";
  CHECK_THROWS_WITH(legacy_rules(none), ContainsSubstring("/no/such.json cannot be read"));
  CHECK_THROWS_WITH(Plan::resolve(sites.table, with(R"({"nothing": {"w_bits": 8}})")), ContainsSubstring("matches no site"));
}

TEST_CASE("a range from a history is refused for types whose blocks have scales", "[quant]") {
  QuantSites sites;
  config::QuantSettings s = settings("mxfp8");
  s.bwd_delayed_scaling = true;
  CHECK_THROWS_WITH(Plan::resolve(sites.table, s), ContainsSubstring("mxfp8 has scales of blocks by its definition"));
}

TEST_CASE("fixed-point sums are for e4m3fn by e4m3fn, and the table says where they run", "[quant]") {
  config::QuantSettings s = settings("fp8_full");
  s.fp8_accumulation = "fixed";
  QuantSites sites;
  const Plan e5m2 = Plan::resolve(sites.table, s);
  REQUIRE_FALSE(e5m2.unsupported().empty());
  CHECK_THAT(e5m2.unsupported().front(), ContainsSubstring("fp8_accumulation = \"fixed\" for float8_e5m2 by float8_e4m3fn"));
  CHECK_THROWS_WITH(e5m2.bind(sites.table), ContainsSubstring("can be explained but not run"));
  s.bwd_quantization_dtype = "e4m3";
  const Plan e4m3 = Plan::resolve(sites.table, s);
  CHECK(e4m3.unsupported().empty());
  CHECK_THAT(e4m3.table(), ContainsSubstring("fixed of codes"));
  config::QuantSettings idle = settings("int8_full");
  idle.fp8_accumulation = "fixed";
  CHECK_THROWS_WITH(Plan::resolve(sites.table, idle), ContainsSubstring("has nothing to act on: no product of this plan multiplies fp8 codes"));
  CHECK(e4m3.remembers_ranges() == nullptr);
  CHECK(Plan::resolve(sites.table, settings("fp8_gpu")).remembers_ranges() != nullptr);
  s.fp8_accumulation = "fp16x128";
  s.bwd_quantization_dtype = "e5m2";  // e5m2 by e4m3fn is what fp8_full's gradients multiply
  const Plan half = Plan::resolve(sites.table, s);
  CHECK_THAT(half.table(), ContainsSubstring("fp16x128 of codes"));
  if (exec_is_host && !sums_in_half())
    CHECK_THAT(half.unsupported().front(), ContainsSubstring("need AVX-512 FP16"));
  if (!exec_is_host) return;
  const IsaScope scope(Isa::portable);
  CHECK(Plan::resolve(sites.table, s).unsupported().empty());
  config::QuantSettings blocks = settings("mxfp8");
  blocks.fp8_accumulation = "fp16x128";
  CHECK_THAT(Plan::resolve(sites.table, blocks).unsupported().front(), ContainsSubstring("in blocks: it multiplies float8_e4m3fn by float8_e4m3fn or float8_e5m2, without tiles"));
}

TEST_CASE("integer sums that could overflow are told at the start, with site and axis", "[quant]") {
  QuantSites sites;
  sites.at("decoder/logits_dense", -1).n = 200000;
  config::QuantSettings s = settings("int8_full");
  s.quantize_logits_proj = true;
  const Plan wide = Plan::resolve(sites.table, s);
  REQUIRE_FALSE(wide.unsupported().empty());
  CHECK_THAT(wide.unsupported().front(), ContainsSubstring("decoder/logits_dense: dx sums integer products over 200000 outputs; beyond 131071"));
  CHECK_THROWS_WITH(wide.bind(sites.table), ContainsSubstring("200000 outputs"));
  QuantSites others;
  const Plan long_batch = Plan::resolve(others.table, s, {}, 131072);
  CHECK_THAT(long_batch.unsupported().front(), ContainsSubstring("dw sums integer products over 131072 tokens of a micro-batch"));
  CHECK(Plan::resolve(others.table, s, {}, 131071).unsupported().empty());
  s.quantization = "fp8_full";  // float sums of any length
  CHECK(Plan::resolve(others.table, s, {}, 131072).unsupported().empty());
}

TEST_CASE("a scheme that quantizes nothing of a model is refused, and mistakes are told with their place", "[quant]") {
  QuantSites sites;
  config::QuantSettings s = settings("int8_full");
  SiteTable router;  // which stays plain
  router.add(sites.at("decoder/moe_layers/DeepSeekMoeBlock_0/MoeBlock_0/gate", 0));
  const Plan plan = Plan::resolve(router, s);
  CHECK(plan.quantized_count() == 0);
  CHECK_THROWS_WITH(plan.bind(router), ContainsSubstring("quantizes no product of this model"));
  s.weight_quantization_calibration_method = "absmax,0";
  s.places.emplace("weight_quantization_calibration_method", config::Place{"a.toml", 7, 3});
  CHECK_THROWS_WITH(Plan::resolve(sites.table, s), ContainsSubstring("a.toml:7:3: [quant] weight_quantization_calibration_method: "));
  s = settings("no_such_scheme");
  s.places.emplace("quantization", config::Place{"a.toml", 2, 1});
  CHECK_THROWS_WITH(Plan::resolve(sites.table, s), ContainsSubstring("a.toml:2:1: [quant] quantization: There is no scheme 'no_such_scheme'"));
}
