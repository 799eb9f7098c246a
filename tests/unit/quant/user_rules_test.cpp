// Rules as a file writes them, on the sites of a small model: what they do, and every sentence that refuses one.
#include "quant/user_rules.hpp"

#include "base/error.hpp"
#include "quant/plan.hpp"
#include "support/quant_sites.hpp"

#include <catch2/catch_test_macros.hpp>
#include <catch2/matchers/catch_matchers_string.hpp>

using namespace kvant;
using namespace kvant::quant;
using Catch::Matchers::ContainsSubstring;
using kvant::test::QuantSites;

namespace {

/// The text is a whole [quant]; the rest of a configuration stands before it, on one line.
config::QuantSettings settings(const std::string& text) {
  config::Document document = config::Document::parse(
      "model = {vocab_size = 256, max_target_length = 32, base_emb_dim = 64, base_num_query_heads = 4, base_num_decoder_layers = 2}\n" + text,
      "a.toml");
  const config::Settings all = config::read_settings(document);
  document.finish_outside("quant.plugins");
  return all.quant;
}

struct Resolved {
  explicit Resolved(const std::string& text, int64_t tokens = 0) : plan(Plan::resolve(sites.table, settings(text), {}, tokens)) {}
  const Decision& at(const char* path, int layer = 0, const char* op = "") {
    for (const Decision& d : plan.decisions())
      if (d.site == &sites.at(path, layer, op)) return d;
    throw std::runtime_error("no decision");
  }
  const Recipe& recipe(const char* path, int layer = 0, const char* op = "") { return *at(path, layer, op).recipe; }
  QuantSites sites;
  Plan plan;
};

void refused(const std::string& text, const std::string& sentence, int64_t tokens = 0) {
  INFO(text);
  QuantSites sites;
  CHECK_THROWS_WITH(Plan::resolve(sites.table, settings(text), {}, tokens), ContainsSubstring(sentence));
}

std::string rule(const std::string& fields) { return "[[quant.rules]]\n" + fields + "\n"; }

constexpr const char* wq_a = "decoder/dense_layers/self_attention/wq_a";
constexpr const char* gate = "decoder/moe_layers/DeepSeekMoeBlock_0/MoeBlock_0/gate";
constexpr const char* experts = "decoder/moe_layers/DeepSeekMoeBlock_0/MoeBlock_0";
const std::string int8 = "weight_qtype = \"int8\"\nact_qtype = \"int8\"\nbwd_qtype = \"int8\"\n";

}  // namespace

TEST_CASE("rules stand alone or before a scheme's, the first one that matches wins", "[quant]") {
  Resolved alone(rule(int8));
  CHECK(alone.at(wq_a).recipe != nullptr);
  CHECK(alone.at(gate).recipe == nullptr);  // D14: a catch-all leaves the router out, and the table says so
  CHECK_THAT(alone.plan.table(), ContainsSubstring("quantize_router_proj is false") && ContainsSubstring("a.toml:2:"));
  Resolved both("[quant]\nquantization = \"int8_full\"\n" + rule("module_path = \".*/wq_a\"") + rule("module_path = \".*/w.*\"\n" + int8));
  CHECK(both.at(wq_a).recipe == nullptr);
  CHECK(both.recipe(experts, 0, "gmm0").act.qtype == "int8");
  Resolved none("[quant]\nquantization = \"\"\n" + rule(int8));
  CHECK(none.plan.quantized_count() == 0);
}

TEST_CASE("fields of a rule arrive in the recipe", "[quant]") {
  Resolved r(rule("module_path = \".*/mlp/.*\"\nweight_qtype = \"int4\"\nact_qtype = \"int8\"\nbwd_qtype = \"float8_e5m2\"\n"
                  "weight_calibration_method = \"absmax,0.9\"\nact_calibration_method = \"fixed,4\"\nbwd_weight_grad_tile_size = 0.25\n"
                  "bwd_stochastic_rounding = \"uniform\"\nwgrad_transform = \"hadamard16\"\n[quant.rules.additional_qt_config]\n"
                  "drhs_grad_qtype = \"int8\"\ndrhs_grad_calibration_method = \"absmax,0.5\"\ndlhs_tile_size = 32\ndisable_gradient_clipping = true\n"));
  const Recipe& recipe = r.recipe("decoder/dense_layers/mlp/wi_0");
  CHECK(recipe.weight.qtype == "int4");
  CHECK(recipe.weight.calibration.text == "absmax,0.9");
  CHECK(recipe.act.scaling == Scaling::constant);
  CHECK(recipe.act.granularity == Granularity::per_tensor);
  CHECK(recipe.grad_input.qtype == "float8_e5m2");
  CHECK(recipe.grad_weight.qtype == "int8");
  CHECK(recipe.grad_weight.calibration.text == "absmax,0.5");
  CHECK(recipe.grad_weight.contracted == Tile{0, 4});
  CHECK(recipe.grad_input.contracted == Tile{32, 0});
  CHECK(recipe.grad_weight.rounding == Rounding::uniform);
  CHECK(recipe.wgrad == Transform::hadamard16);
  CHECK_FALSE(recipe.mask_gradients);
  CHECK(recipe.weight_residual == Residual::codes);
}

TEST_CASE("tiles, residuals and static ranges as Qwix has them", "[quant]") {
  Resolved tiled(rule(int8 + "tile_size = 32"));
  CHECK(tiled.recipe(wq_a).weight.contracted == Tile{32, 0});
  CHECK(tiled.recipe(wq_a).act.contracted == Tile{32, 0});
  CHECK(tiled.recipe(wq_a).weight_residual == Residual::original);
  Resolved blocks(rule("op_names = [\"dot_general\"]\n" + int8 + "tile_size = { 0 = 16, 1 = 0.5 }"));
  CHECK(blocks.recipe(wq_a).weight.contracted == Tile{16, 0});  // inputs are axis 0 of a weight …
  CHECK(blocks.recipe(wq_a).weight.other == Tile{32, 0});
  CHECK(blocks.recipe(wq_a).act.contracted == Tile{32, 0});  // … and axis 1 of an activation
  CHECK(blocks.recipe(wq_a).act.other == Tile{16, 0});
  Resolved again(rule(int8 + "tile_size = 32\n[quant.rules.additional_qt_config]\ndlhs_residual_qtype = \"int8\""));
  CHECK(again.recipe(wq_a).weight_residual == Residual::requantized);
  CHECK(again.recipe(wq_a).weight_again.granularity == Granularity::per_row);
  Resolved original(rule(int8 + "[quant.rules.additional_qt_config]\nuse_original_residuals = true"));
  CHECK(original.recipe(wq_a).act_residual == Residual::original);
  Resolved forward(rule("weight_qtype = \"int8\"\nact_qtype = \"int8\"\nact_static_scale = true\nact_batch_axes = [0, 1]"));
  CHECK(forward.recipe(wq_a).act.scaling == Scaling::running_mean);
  CHECK(forward.recipe(wq_a).act.batch_axes == std::vector<int64_t>{0, 1});
  CHECK(forward.recipe(wq_a).weight_residual == Residual::original);
  CHECK_FALSE(forward.recipe(wq_a).grad_input.quantized());
  CHECK_THAT(forward.plan.table(), ContainsSubstring("running mean"));
  CHECK(forward.plan.unsupported().empty());
  refused(rule("weight_qtype = \"int8\"\nact_qtype = \"int8\"\nact_static_scale = true"), "act_batch_axes = [0] would keep a range for each position");
  refused(rule("weight_qtype = \"int8\"\nact_qtype = \"int8\"\nact_static_scale = true\nact_batch_axes = [0, 1]\ntile_size = 16"), "tiles cannot be had with it");
}

TEST_CASE("unknown names are refused with the nearest valid one and their place, all at once", "[quant]") {
  refused(rule("weight_qtype = \"int9\""), "a.toml:3:16: weight_qtype = \"int9\" is no known type (\"int8\"?)");
  refused(rule("weight_qtype = \"e4m3fn\""), "(\"float8_e4m3fn\"?)");
  refused(rule("weight_qtype = \"int8\"\nop_names = \"dot_genral\""), "a.toml:4:12: op_names holds \"dot_genral\", which is no op (\"dot_general\"?)");
  refused(rule("op_names = [\"dot_general0\"]"), "op names have no running number: \"dot_general\"");
  refused(rule(int8 + "act_calibration_method = \"absmx\""), "a.toml:6:26: ");
  refused(rule(int8 + "act_calibration_method = \"absmx\""), "absmax");
  refused(rule(int8 + "bwd_calibration_method = \"fixed,0\""), "a.toml:6:26: The calibration \"fixed,0\" is refused");
  refused(rule("module_path = \"decoder/(\""), "a.toml:3:15: module_path \"decoder/(\" is no valid regular expression: missing closing parenthesis (at character 10).");
  refused(rule("layers = \"2-\""), "a.toml:3:10: layers = \"2-\"");
  const std::string several = rule("weight_qtype = \"int9\"\nop_names = \"gmn\"") + rule("act_qtype = \"int8\"");
  refused(several, "3 problems in the rules of [quant]:");
  refused(several, "act_qtype would be ignored: the rule has no weight_qtype, so it leaves its sites plain");
  refused("[quant]\nquantization = \"int8_ful\"\n", "(did you mean 'int8_full'?)");
}

TEST_CASE("a field that nothing would read is refused", "[quant]") {
  const std::string forward = "weight_qtype = \"int8\"\nact_qtype = \"int8\"\n";
  refused(rule("weight_qtype = \"int8\"\nact_calibration_method = \"absmax\""), "act_calibration_method would be ignored: the rule has no act_qtype");
  refused(rule("weight_qtype = \"int8\"\nact_static_scale = true"), "act_static_scale would be ignored: the rule has no act_qtype");
  refused(rule(forward + "act_batch_axes = [0]"), "act_batch_axes would be ignored: the rule has no act_static_scale = true");
  refused(rule(forward + "bwd_calibration_method = \"absmax\""), "bwd_calibration_method would be ignored: the rule has no bwd_qtype");
  refused(rule(forward + "bwd_weight_grad_tile_size = 32"), "bwd_weight_grad_tile_size would be ignored: the rule has no bwd_qtype");
  refused(rule(forward + "bwd_stochastic_rounding = \"uniform\""), "bwd_stochastic_rounding would be ignored: the rule has no bwd_qtype");
  refused(rule(int8 + "channelwise_noise_axes = [0]"), "channelwise_noise_axes would be ignored: the rule has no bwd_stochastic_rounding");
  refused(rule(int8 + "bwd_stochastic_rounding = \"uniform\"\nchannelwise_noise_axes = [0]"), "qwix_compat has the reference's");
  refused(rule(int8 + "bwd_weight_grad_tile_size = 16\n[quant.rules.additional_qt_config]\ndrhs_tile_size = 16"), "are the same setting");
  refused(rule("tile_size = 8"), "tile_size would be ignored: the rule has no weight_qtype");
  refused(rule(int8 + "weight_calibration_method = \"fixed,1\"\ntile_size = 16"), "tiles would be ignored: \"fixed,1\" is one range for the whole weight");
}

TEST_CASE("D03: a selector that matches nothing is an error unless it is optional", "[quant]") {
  const std::string scheme = "[quant]\nquantization = \"int8_full\"\n";
  refused(scheme + rule("module_path = \"decoder/lm_head\""), "matches no site of this model");
  CHECK_NOTHROW(Resolved(scheme + rule("module_path = \"decoder/lm_head\"\noptional = true")));
  refused("[quant]\nunquantized_modules = [\"logits_dens\"]\nquantization = \"int8_full\"\n",
          "a.toml:3:23: [quant] unquantized_modules: \"logits_dens\" names no module of this model (\"logits_dense\"?)");
  refused(scheme + rule("layers = \"9\""), "matches no site");
  Resolved named("[quant]\nunquantized_modules = [\"shared_experts\", \"wkv_b\"]\nquantization = \"int8_full\"\n");
  int excluded = 0;
  for (const Decision& d : named.plan.decisions()) excluded += d.reason.starts_with("unquantized_modules");
  CHECK(excluded == 3 * 3 + 4);  // three shared experts of three products, four wkv_b
  Resolved exact("[quant]\nunquantized_modules = \"logits_dense\"\nquantization = \"int8_full\"\nquantize_logits_proj = true\n");
  excluded = 0;
  for (const Decision& d : exact.plan.decisions()) excluded += d.reason == "unquantized_modules names \"logits_dense\"";
  CHECK(excluded == 2);  // the head and the prediction module's use of it
  refused("[quant]\nunquantized_modules = \"shared_expert\"\nquantization = \"int8_full\"\n", "names no module");  // whole elements only
  for (const char* name : {"", "/wo", "wo/"})
    refused("[quant]\nunquantized_modules = [\"" + std::string(name) + "\"]\nquantization = \"int8_full\"\n", "is no name of a module");
}

TEST_CASE("D13: every axis that does not divide is named at once, before anything runs", "[quant]") {
  QuantSites sites;
  sites.at(wq_a, 0).k = 72;
  sites.at("decoder/dense_layers/mlp/wo", 0).k = 40;
  const auto message = [&](const std::string& text, int64_t tokens = 0) {
    try {
      Plan::resolve(sites.table, settings(text), {}, tokens);
    } catch (const UsageError& error) {
      return std::string(error.what());
    }
    return std::string("nothing was refused");
  };
  const std::string mx = message("[quant]\nquantization = \"mxfp8\"\n");
  CHECK_THAT(mx, ContainsSubstring("4 axes do not divide") && ContainsSubstring("decoder/dense_layers/self_attention/wq_a layer 0: 72 inputs by 32 (weight mxfp8)") &&
                     ContainsSubstring("decoder/dense_layers/mlp/wo layer 0: 40 inputs by 32 (activation mxfp8)") && ContainsSubstring("[scheme mxfp8]"));
  const std::string tiles = message(rule("module_path = \".*/wq_a\"\nlayers = \"0\"\n" + int8 + "tile_size = 16"));
  CHECK_THAT(tiles, ContainsSubstring("72 inputs by 16") && ContainsSubstring("a.toml:2:"));
  const std::string rows = message(rule("module_path = \".*/wq_b\"\nlayers = \"0\"\n" + int8 + "bwd_weight_grad_tile_size = 0.25"), 30);
  CHECK_THAT(rows, ContainsSubstring("30 tokens in 4 parts (gradient for dw int8)"));
  refused(rule(int8 + "tile_size = 0.2"), "64 inputs in 5 parts");
}

TEST_CASE("what a type cannot do is refused at the start", "[quant]") {
  const std::string fp8 = "weight_qtype = \"float8_e4m3fn\"\nact_qtype = \"float8_e4m3fn\"\n";
  refused(rule(fp8 + "act_calibration_method = \"fixed,-1,3\""), "needs a zero point, and float8_e4m3fn has none; \"fixed,3\"");
  refused(rule(int8 + "act_calibration_method = \"fixed,-1,3\""), "quantized gradients cannot be multiplied with codes that have one");
  refused(rule("weight_qtype = \"int4\"\nact_qtype = \"int4\"\nbwd_qtype = \"int4\"\nbwd_calibration_method = \"fixed,-1,3\""),
          "a.toml:6:26: the calibration \"fixed,-1,3\" is not symmetric");
  refused(rule("weight_qtype = \"uint8\"\nact_qtype = \"int8\""), "uint8 has no negative codes");
  refused(rule(fp8 + "weight_calibration_method = \"minmax\""), "needs a zero point, and float8_e4m3fn has none; \"absmax\" is the symmetric method");
  refused(rule("weight_qtype = \"int8\"\nact_qtype = \"nf4\""), "nf4 is a type of weights alone");
  refused(rule("weight_qtype = \"nf4\"\nact_qtype = \"int8\"\nbwd_qtype = \"nf4\""), "a gradient cannot be quantized to it");
  refused(rule("weight_qtype = \"mxfp8\"\nact_qtype = \"mxfp8\"\ntile_size = 64"), "mxfp8 shares a scale among 32 elements by its definition; tiles of 64");
  QuantSites sites;
  sites.at(wq_a, 0).k = 72;
  CHECK_THROWS_WITH(Plan::resolve(sites.table, settings(rule("module_path = \".*/wq_a\"\n" + int8 + "forward_transform = \"hadamard16\""))),
                    ContainsSubstring("hadamard16 takes 16 elements at a time, and decoder/dense_layers/self_attention/wq_a has 72 inputs"));
  const std::string ieee = "[quant]\nqwix_compat = \"ieee\"\n";
  refused(ieee + rule("weight_qtype = \"int3\"\nact_qtype = \"int8\"\nbwd_qtype = \"int8\""), "the reference's backward cannot read codes of int3");
  refused(ieee + rule("module_path = \".*MoeBlock_0\"\nop_names = \"gmm\"\n" + int8 + "tile_size = 16"), "no tiles in grouped products");
  CHECK_NOTHROW(Resolved(rule("weight_qtype = \"int3\"\nact_qtype = \"int8\"\nbwd_qtype = \"int8\"")));  // ours can
}

TEST_CASE("noise that elements share is the reference's: of dense products, of its own integers, by axes that gradients have", "[quant]") {
  const std::string ieee = "[quant]\nqwix_compat = \"ieee\"\n", dense = "op_names = \"dot_general\"\n", noise = "bwd_stochastic_rounding = \"uniform\"\n";
  Resolved by_sequence(ieee + rule(dense + int8 + noise));
  CHECK(by_sequence.recipe(wq_a).grad_input.noise_axes == std::vector<int64_t>{0});
  CHECK(by_sequence.plan.unsupported().empty());
  CHECK_THAT(by_sequence.plan.table(), ContainsSubstring("uniform noise by sequence"));
  CHECK_THAT(by_sequence.plan.json(), ContainsSubstring("\"noise_axes\""));
  Resolved by_both(ieee + rule(dense + int8 + noise + "channelwise_noise_axes = [0, 2]"));
  CHECK_THAT(by_both.plan.table(), ContainsSubstring("uniform noise by sequence and output"));
  Resolved one(ieee + rule(dense + int8 + noise + "channelwise_noise_axes = []"));
  CHECK_THAT(one.plan.table(), ContainsSubstring("uniform noise of one draw"));
  Resolved ours(rule(dense + int8 + noise));
  CHECK_FALSE(ours.recipe(wq_a).grad_input.noise_axes);
  CHECK_FALSE(by_sequence.recipe(wq_a).act.noise_axes);
  const std::string e5m2 = "weight_qtype = \"int8\"\nact_qtype = \"int8\"\nbwd_qtype = \"float8_e5m2\"\n";
  refused(ieee + rule(dense + e5m2 + noise), "a.toml:9:27: qwix_compat = \"ieee\": the reference rounds float8_e5m2 to nearest");
  refused(ieee + rule(dense + int8 + noise + "[quant.rules.additional_qt_config]\nuse_original_residuals = true\ndrhs_grad_qtype = \"int3\""),
          "the reference rounds int3 to nearest");
  refused(ieee + rule(int8 + noise), "the reference rounds gradients of grouped products (decoder/moe_layers/DeepSeekMoeBlock_0/MoeBlock_0) to nearest");
}

TEST_CASE("a forward transform is of both operands, whichever of them is quantized", "[quant]") {
  const std::string hadamard = "forward_transform = \"hadamard16\"\n";
  Resolved both(rule(int8 + hadamard));
  CHECK(both.plan.unsupported().empty());
  CHECK(both.recipe(wq_a).act_residual == Residual::requantized);
  CHECK(both.recipe(experts, 1, "gmm2").weight_residual == Residual::requantized);
  CHECK_THAT(both.plan.table(), ContainsSubstring("forward int32 after hadamard16, dx int32, dw int32"));
  Resolved weights(rule("weight_qtype = \"int4\"\n" + hadamard));
  CHECK_THAT(weights.plan.table(), ContainsSubstring("forward f32 of quantized values after hadamard16"));
  refused(rule("module_path = \".*/wq_a\"\n" + hadamard), "forward_transform would be ignored: the rule has no weight_qtype");
  const std::string clipping = "module_path = \".*/wq_a\"\nweight_qtype = \"int8\"\nact_qtype = \"int8\"\nact_calibration_method = \"absmax,0.9\"\n" + hadamard;
  refused(rule(clipping), "a.toml:6:26: the calibration \"absmax,0.9\" clips");
  CHECK_NOTHROW(Resolved(rule(clipping + "[quant.rules.additional_qt_config]\ndisable_gradient_clipping = true")));
}

TEST_CASE("types without kernels and forms that are not computed can be shown, not run", "[quant]") {
  Resolved r(rule("weight_qtype = \"int8\"\nact_qtype = \"int8\"\nact_static_scale = true\nact_batch_axes = [0, 1]\nact_calibration_method = \"minmax\""));
  CHECK_THAT(r.plan.table(), ContainsSubstring("running mean") && ContainsSubstring("This version can show this plan, not run it:"));
  REQUIRE_FALSE(r.plan.unsupported().empty());
  CHECK_THROWS_WITH(r.plan.bind(r.sites.table), ContainsSubstring("can be explained but not run") && ContainsSubstring("a.toml:2:"));
}

TEST_CASE("settings of a rule that nothing would read are refused with their place", "[quant]") {
  const std::string more = "[quant.rules.additional_qt_config]\n";
  refused(rule(int8 + "layers = \"0-99\""), "a.toml:6:10: layers = \"0-99\" names layer 99, where the largest number is");
  refused(rule(int8 + "layers = \"last:99\""), "names 99 layers at an end of the decoder, which has");
  refused(rule(int8 + more + "dlhs_residual_qtype = \"int4\""), "a.toml:7:23: dlhs_residual_qtype would be ignored: this arm of");
  refused(rule(int8 + more + "drhs_residual_qtype = \"int4\""), "a.toml:7:23: drhs_residual_qtype would be ignored");
  CHECK_NOTHROW(Resolved(rule(int8 + more + "use_original_residuals = true\ndlhs_residual_qtype = \"int8\"\ndrhs_residual_qtype = \"int8\"")));
  refused(rule("op_names = [\"gmm\"]\n" + int8 + "tile_size = { 0 = 32, 1 = 32 }"), "tiles along the tokens of an activation would span the rows of several experts");
  refused(rule("op_names = [\"gmm\"]\n" + int8 + "bwd_calibration_method = \"minmax\"\n" + more + "use_original_residuals = true"),
          "the gradients of an expert's columns get no zero points (\"minmax\"");
}

TEST_CASE("what is quantized again for a backward arm stands in the table", "[quant]") {
  Resolved r(rule(int8 + "op_names = [\"dot_general\"]\nforward_transform = \"hadamard16\"\nweight_calibration_method = \"rms,3\"\n"
                         "[quant.rules.additional_qt_config]\ndisable_gradient_clipping = true"));
  CHECK_THAT(r.plan.table(), ContainsSubstring("w/column: int8 rms,3") && ContainsSubstring("w again for dx/row: int8 absmax, x again for dw/column: int8 absmax"));
}

TEST_CASE("the short form covers the trunk only, and the table says so", "[quant]") {
  Resolved r("[quant]\ndtype = \"int8\"\nbwd_qtype = \"int8\"\n");
  CHECK(r.at(wq_a).recipe != nullptr);
  CHECK(r.at(experts, 1, "gmm2").recipe != nullptr);
  CHECK(r.at(gate).recipe == nullptr);
  CHECK_THAT(r.at("decoder/logits_dense", -1).reason, ContainsSubstring("the short form covers the trunk only"));
  CHECK_THAT(r.at("mtp_block/mtp_layer_1/projection", -1).reason, ContainsSubstring("the short form covers the trunk only"));
  Resolved some("[quant]\ndtype = \"int8\"\npatterns = [\".*/wo\", \".*/wkv_b\"]\ncalibration = \"absmax,0.9\"\nbwd_qtype = \"int8\"\n");
  CHECK(some.at(wq_a).recipe == nullptr);
  CHECK(some.recipe("decoder/dense_layers/mlp/wo").grad_input.calibration.text == "absmax,0.9");
  refused("[quant]\ndtype = \"int9\"\n", "a.toml:3:9: [quant] dtype: dtype = \"int9\" is no known type (\"int8\"?)");
  refused("[quant]\ndtype = \"nf4\"\n", "is a type of weights alone");
  refused("[quant]\ndtype = \"int8\"\npatterns = \"decoder/logits_dense\"\n", "decides nothing: earlier rules take all 2 sites");
  refused("[quant]\ndtype = \"int8\"\npatterns = \"(\"\n", "a.toml:4:12: [quant] patterns: module_path \"(\" is no valid regular expression");
  refused("[quant]\ndtype = \"int8\"\nquantize_router_proj = true\n", "true would be ignored: the short form covers the trunk only");
  refused("[quant]\ndtype = \"int8\"\nbwd_stochastic_rounding = \"uniform\"\n", "\"uniform\" would be ignored: there is no bwd_qtype");
  refused("[quant]\ndtype = \"int8\"\ncalibration = \"absmx\"\n", "a.toml:4:15: [quant] calibration: ");
}

TEST_CASE("settings that mattered are listed with the sites that they decided", "[quant]") {
  Resolved r("[quant]\nquantization = \"fp8_full\"\nweight_quantization_calibration_method = \"fixed,4\"\n");
  const std::string table = r.plan.table();
  CHECK_THAT(table, ContainsSubstring("Settings that mattered:") && ContainsSubstring("quantize_router_proj = false (3 sites)") &&
                        ContainsSubstring("weight_quantization_calibration_method = \"fixed,4\"") && ContainsSubstring("quantize_mtp = false") &&
                        ContainsSubstring("quantize_logits_proj = false (2 sites)"));
  Resolved with("[quant]\nquantization = \"int8_full\"\nquantize_router_proj = true\n");
  CHECK_THAT(with.plan.table(), ContainsSubstring("quantize_router_proj = true (2 sites)"));
}

TEST_CASE("the log's form has one line for each lookup, in order", "[quant]") {
  Resolved r("[quant]\nquantization = \"int8_full\"\n");
  const std::string text = r.plan.log_lines();
  CHECK(text.starts_with("module='decoder/dense_layers_0/self_attention/wq_a' op=dot_general0 rule=1\n"));
  CHECK_THAT(text, ContainsSubstring("module='decoder/moe_layers_1/DeepSeekMoeBlock_0/MoeBlock_0/gate' op=dot_general0 rule=0\n"
                                     "module='decoder/moe_layers_1/DeepSeekMoeBlock_0/MoeBlock_0' op=gmm rule=1\n"
                                     "module='decoder/moe_layers_1/DeepSeekMoeBlock_0/shared_experts/wi_0' op=dot_general0 rule=1\n"));
  CHECK_THAT(text, ContainsSubstring("module='decoder/logits_dense' op=dot_general0 rule=None\n") &&
                       ContainsSubstring("module='decoder/moe_layers_0/self_attention/attention_op' op=einsum0 rule=None\n"));
}
