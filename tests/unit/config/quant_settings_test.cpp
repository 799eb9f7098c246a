// [quant] and [[quant.rules]]: every field is read with its place, what is wrong is refused with file, line and column.
#include "config/settings.hpp"

#include "base/error.hpp"

#include <catch2/catch_test_macros.hpp>
#include <catch2/matchers/catch_matchers_string.hpp>

#include <string>

using Catch::Matchers::ContainsSubstring;
using namespace kvant::config;

namespace {

const std::string model =
    "[model]\nvocab_size = 256\nmax_target_length = 32\nbase_emb_dim = 64\nbase_num_query_heads = "
    "4\nbase_num_decoder_layers = 2\n";  // seven lines

Settings read(const std::string& text, const std::vector<std::string>& overrides = {}) {
  Document document = Document::parse(model + text, "a.toml", overrides);
  const Settings settings = read_settings(document);
  document.finish();
  return settings;
}

void refused(const std::string& text, const std::string& sentence) {
  INFO(text);
  REQUIRE_THROWS_WITH(read(text), ContainsSubstring(sentence));
}

const std::string every_field = R"([[quant.rules]]
module_path = "decoder/(?!moe).*"
op_names = ["dot_general", "gmm"]
layers = "0-3,last:2"
optional = true
weight_qtype = "int4"
act_qtype = "int8"
bwd_qtype = "float8_e5m2"
tile_size = { 0 = 128, 1 = 0.5 }
act_static_scale = true
act_batch_axes = [0, 1]
weight_calibration_method = "absmax,0.9"
act_calibration_method = "rms,7"
bwd_calibration_method = "fixed,1"
bwd_weight_grad_tile_size = 0.25
disable_channelwise_axes = true
bwd_stochastic_rounding = "low_bit_uniform"
channelwise_noise_axes = [1]
wgrad_transform = "hadamard16"
[quant.rules.additional_qt_config]
drhs_grad_qtype = "int8"
dlhs_tile_size = 64
use_original_residuals = true
disable_gradient_clipping = true

[[quant.rules]]
module_path = ".*/gate"
)";

}  // namespace

TEST_CASE("every field of a rule is read, with its place") {
  const QuantSettings q = read(every_field).quant;
  CHECK(q.quantization == "rules");
  CHECK(q.scheme().empty());
  REQUIRE(q.rules.size() == 2);
  const RuleSettings& r = q.rules[0];
  CHECK(r.module_path == "decoder/(?!moe).*");
  CHECK(r.op_names == std::vector<std::string>{"dot_general", "gmm"});
  CHECK(r.layers == "0-3,last:2");
  CHECK(r.optional);
  CHECK((r.weight_qtype == "int4" && r.act_qtype == "int8" && r.bwd_qtype == "float8_e5m2"));
  REQUIRE(r.tile_size.axes.size() == 2);
  CHECK(r.tile_size.axes[0].second == TileSize{128, 0});
  CHECK(r.tile_size.axes[1].second == TileSize{0, 0.5});
  CHECK(r.act_static_scale);
  CHECK(r.act_batch_axes == std::vector<int64_t>{0, 1});
  CHECK(r.weight_calibration_method == "absmax,0.9");
  CHECK(r.act_calibration_method == "rms,7");
  CHECK(r.bwd_calibration_method == "fixed,1");
  CHECK(r.bwd_weight_grad_tile_size == TileSize{0, 0.25});
  CHECK(r.disable_channelwise_axes);
  CHECK(r.bwd_stochastic_rounding == "low_bit_uniform");
  CHECK(r.channelwise_noise_axes == std::vector<int64_t>{1});
  CHECK(r.wgrad_transform == "hadamard16");
  CHECK(r.drhs_grad_qtype == "int8");
  CHECK(r.dlhs_tile_size == TileSize{64, 0});
  CHECK(r.use_original_residuals);
  CHECK(r.disable_gradient_clipping);
  CHECK(r.place("act_qtype") == "a.toml:13:13");
  CHECK(r.place("drhs_grad_qtype") == "a.toml:27:19");
  CHECK(r.place("dgrad_transform") == r.place());
  CHECK(r.place().starts_with("a.toml:7:"));
  CHECK(q.rules[1].place().starts_with("a.toml:32:"));
  CHECK(q.rules[1].weight_qtype.empty());
}

TEST_CASE("a rule's mistakes are named with their places, all at once") {
  const std::string text = "[[quant.rules]]\nmodule_pth = \".*\"\nweight_qtype = 8\nbwd_stochastic_rounding = \"unifrom\"\n"
                           "[quant.rules.additional_qt_config]\nlhs_qtype = \"int8\"\n";
  REQUIRE_THROWS_WITH(read(text), ContainsSubstring("4 problems") &&
                                      ContainsSubstring("a.toml:8:1: section [quant.rules[1]] has no key 'module_pth'; did you "
                                                        "mean 'module_path'?") &&
                                      ContainsSubstring("a.toml:9:16: weight_qtype in section [quant.rules[1]] must be a string") &&
                                      ContainsSubstring("did you mean \"uniform\"?") &&
                                      ContainsSubstring("a.toml:12:1: section [quant.rules[1].additional_qt_config] has no key 'lhs_qtype'"));
  refused("[quant.rules]\nmodule_path = \".*\"\n", "'quant.rules' is a list of tables, each written [[quant.rules]]; found a table");
  refused("[quant]\nrules = 3\n", "'quant.rules' is a list of tables, each written [[quant.rules]]; found the integer 3");
  refused("[quant]\nrules = [3]\n", "'quant.rules' is a list of tables, each written [[quant.rules]]; found the integer 3");
  refused("[[quant.rules]]\nadditional_qt_config = 1\n", "so it is a table; found the integer 1");
  refused("[[quant.rules]]\nweight_qtype = \"int8\"\nact_batch_axes = [2]\n", "act_batch_axes in section [quant.rules[1]] holds axes of a matrix");
  refused("[[quant.rules]]\nweight_qtype = \"int8\"\nchannelwise_noise_axes = [3]\n", "channelwise_noise_axes in section [quant.rules[1]] holds axes of a gradient: 0 (sequences)");
}

TEST_CASE("tiles are a count, a share 1/n, or a table of axes") {
  const auto tile = [](const std::string& value) { return read("[[quant.rules]]\ntile_size = " + value + "\n").quant.rules[0].tile_size; };
  CHECK(tile("0").given() == false);
  CHECK(tile("128").contracted == TileSize{128, 0});
  CHECK(tile("1.0").contracted == TileSize{0, 1.0});
  CHECK(tile("0.125").contracted == TileSize{0, 0.125});
  CHECK(tile("{ 0 = 0 }").given() == false);
  for (const char* wrong : {"-1", "0.3", "1.5", "0.0", "nan", "\"128\"", "true"}) {
    INFO(wrong);
    REQUIRE_THROWS_WITH(tile(wrong), ContainsSubstring("a.toml:8:13: tile_size in section [quant.rules[1]] must be 0 (no tiles), a "
                                                       "count of at least 1, or a share 1/n of the axis"));
  }
  REQUIRE_THROWS_WITH(tile("{ 2 = 16 }"), ContainsSubstring("has the axis '2'; operands are matrices, so an axis is 0 or 1"));
  REQUIRE_THROWS_WITH(tile("{ rows = 16 }"), ContainsSubstring("has the axis 'rows'"));
  REQUIRE_THROWS_WITH(tile("{ 0 = -16 }"), ContainsSubstring("axis 0 of tile_size in section [quant.rules[1]] must be"));
}

TEST_CASE("the configuration in force holds the rules and reads back") {
  Document first = Document::parse(model + every_field, "a.toml");
  const Settings a = read_settings(first);
  first.finish();
  Document second = Document::parse(first.resolved(), "b.toml");
  const Settings b = read_settings(second);
  INFO(first.resolved());
  REQUIRE_NOTHROW(second.finish());
  CHECK(b.quant.quantization == "rules");
  REQUIRE(b.quant.rules.size() == 2);
  CHECK(b.quant.rules[0].tile_size.axes == a.quant.rules[0].tile_size.axes);
  CHECK(b.quant.rules[0].drhs_grad_qtype == "int8");
  CHECK(b.quant.rules[1].module_path == ".*/gate");
  CHECK(second.resolved().find("weight_qtype = \"\"") == std::string::npos);  // defaults of a rule are not written out
}

TEST_CASE("rules can be laid over, taken away and given on the command line") {
  CHECK(read(every_field, {"quant.rules=[]"}).quant.quantization == "");
  CHECK(read("", {"quant.rules=[{weight_qtype = \"nf4\"}]"}).quant.rules[0].weight_qtype == "nf4");
  CHECK(read(every_field, {"quant.quantization="}).quant.quantization == "");
  CHECK(read(every_field, {"quant.quantization=int8_full"}).quant.scheme() == "int8_full");
  refused("[quant]\nquantization = \"rules\"\n", "needs at least one [[quant.rules]], or dtype");
}

TEST_CASE("the short form stands alone") {
  const std::string text = "[quant]\ndtype = \"int8\"\npatterns = \".*/wo\"\ncalibration = \"absmax,0.9\"\ntile_size = 32\n"
                           "bwd_qtype = \"int8\"\nbwd_stochastic_rounding = \"uniform\"\n";
  const QuantSettings q = read(text).quant;
  CHECK(q.quantization == "rules");
  CHECK(q.dtype == "int8");
  CHECK(q.patterns == std::vector<std::string>{".*/wo"});
  CHECK(q.tile_size.contracted.count == 32);
  refused(text + "quantization = \"int8\"\n", "bwd_qtype in section [quant] belongs to the short form (dtype, patterns, …), which stands instead of a scheme");
  refused(text + "[[quant.rules]]\n", "the short form, and [[quant.rules]] exclude one another");
  refused("[quant]\npatterns = \".*\"\n", "a.toml:8:12: patterns in section [quant] belongs to the short form, which needs dtype");
  refused(text + "quantize_mtp = true\n", "quantize_mtp in section [quant] has nothing to act on");
}

TEST_CASE("settings that act on rules need no scheme, others do") {
  const std::string rule = "[[quant.rules]]\nweight_qtype = \"int8\"\n";
  CHECK_NOTHROW(read("[quant]\nquantize_router_proj = true\nqwix_compat = \"ieee\"\nunquantized_modules = [\"wo\"]\n" + rule));
  refused("[quant]\nweight_quantization_calibration_method = \"rms,7\"\n" + rule, "has nothing to act on: no 'quantization' names a scheme");
  refused("[quant]\nunquantized_modules = [\"wo\"]\n", "unquantized_modules in section [quant] has nothing to act on");
}

TEST_CASE("quantization_calibration_method stands for two flags and is refused beside either") {
  const std::string both = "[quant]\nquantization = \"fp8_full\"\nquantization_calibration_method = \"fixed,4\"\n";
  const QuantSettings q = read(both).quant;
  CHECK(q.weight_quantization_calibration_method == "fixed,4");
  CHECK(q.act_quantization_calibration_method == "fixed,4");
  CHECK(q.bwd_quantization_calibration_method == "absmax");
  refused(both + "act_quantization_calibration_method = \"absmax\"\n",
          "act_quantization_calibration_method = \"absmax\" in section [quant] stands beside quantization_calibration_method = \"fixed,4\"");
  refused(both + "weight_quantization_calibration_method = \"absmax\"\n", "weight_quantization_calibration_method = \"absmax\"");
  Document document = Document::parse(model + both, "a.toml");
  read_settings(document);
  Document again = Document::parse(document.resolved(), "b.toml");
  read_settings(again);
  CHECK_NOTHROW(again.finish());
}

TEST_CASE("settings of the reference that are not offered are refused by name") {
  const std::pair<const char*, const char*> names[] = {
      {"quantize_kvcache = true", "belongs to inference"},
      {"kv_quant_axis = \"dkv\"", "belongs to inference"},
      {"kv_quant_dtype = \"int4\"", "belongs to inference"},
      {"weight_sparsity_n = 2", "N:M sparsity of weights is not offered"},
      {"weight_sparsity_m = 4", "N:M sparsity of weights is not offered"},
      {"weight_sparsity_start_step = 1", "N:M sparsity of weights is not offered"},
      {"weight_sparsity_update_step = 1", "N:M sparsity of weights is not offered"},
      {"experimental_sa_quant_q_fp8 = true", "plain fp8 cast of queries and keys is not offered"},
      {"experimental_sa_quant_k_fp8 = true", "plain fp8 cast of queries and keys is not offered"},
      {"te_comm_gemm_overlap = \"mlp\"", "TransformerEngine is not part of Kvant"},
      {"use_batch_split_schedule = true", "the batch-split schedule"},
      {"use_manual_quantization = true", "the batch-split schedule"},
      {"checkpoint_is_quantized = true", "belong to serving"},
      {"save_quantized_params_path = \"x\"", "belong to serving"},
      {"constant_bound_config = \"1,1,1,1,1,1\"", "\"fixed,lo,hi\""},
      {"replicate_quant_scale = true", "scales live where their codes do"},
      {"moe_bwd_inkernel_quant = true", "changes no number here"},
      {"moe_quantize_combine_bwd_method = \"rowwise\"", "experts are not spread over ranks yet"},
      {"moe_quantize_token_all_gather = true", "experts are not spread over ranks yet"},
      {"num_vocab_tiling = 2", "the head is one product"},
  };
  for (const auto& [line, sentence] : names) {
    refused(std::string("[quant]\nquantization = \"fp8_full\"\n") + line + "\n", sentence);
    refused(std::string("[quant]\nquantization = \"fp8_full\"\n") + line + "\n", "a.toml:9:1: section [quant] has no key");
  }
  refused("[[quant.rules]]\nsparsity_rule = 1\n", "N:M sparsity of weights is not offered");
}
