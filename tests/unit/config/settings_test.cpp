// The real sections: defaults, every key, D01 in the real schema.
#include "config/settings.hpp"

#include "base/error.hpp"
#include "config/document.hpp"

#include <catch2/catch_test_macros.hpp>
#include <catch2/matchers/catch_matchers_string.hpp>

#include <set>
#include <string>

using Catch::Matchers::ContainsSubstring;
using namespace kvant::config;

namespace {

const char* const smallest =
    "[model]\nvocab_size = 256\nmax_target_length = 32\nbase_emb_dim = 64\nbase_num_query_heads = "
    "4\nbase_num_decoder_layers = 2\n";

Settings read(const std::string& text, const std::vector<std::string>& overrides = {}) {
  Document document = Document::parse(text, "a.toml", overrides);
  const Settings settings = read_settings(document);
  document.finish();
  return settings;
}

}  // namespace

TEST_CASE("defaults are those of the structs") {
  const Settings s = read(smallest);
  CHECK(s.model.base_emb_dim == 64);
  CHECK(s.model.kv_lora_rank == ModelSettings{}.kv_lora_rank);
  CHECK(s.model.float32_gate_logits);
  CHECK(s.model.dtype == ComputeType::float32);
  CHECK(s.quant.use_qwix_quantization);
  CHECK_FALSE(s.quant.quantize_router_proj);
  CHECK(s.optimizer.adam_weight_decay == 0.1);
  CHECK(s.data.packing);
  CHECK(s.metrics.eval_interval == -1);
  CHECK(s.run.steps == 0);
}

TEST_CASE("words of the file become values") {
  const Settings s = read(smallest, {"model.routed_score_func=sigmoid", "model.rope_type=yarn", "model.dtype=bfloat16",
                                     "model.remat_policy=full", "model.init=normal", "run.seed=12",
                                     "optimizer.adamw_mask=[\"scale$\", \"bias$\"]"});
  CHECK(s.model.routed_score_func == ScoreFunction::sigmoid);
  CHECK(s.model.rope_type == RopeType::yarn);
  CHECK(s.model.dtype == ComputeType::bfloat16);
  CHECK(s.model.remat_policy == Remat::full);
  CHECK(s.model.init == Initialiser::normal);
  CHECK(s.run.seed == 12);
  CHECK(s.optimizer.adamw_mask == std::vector<std::string>{"scale$", "bias$"});
}

TEST_CASE("the shape of a model has no defaults: all that is missing is named at once") {
  REQUIRE_THROWS_WITH(read("[model]\n"), ContainsSubstring("5 problems") &&
                                             ContainsSubstring("needs the key 'vocab_size'") &&
                                             ContainsSubstring("needs the key 'max_target_length'") &&
                                             ContainsSubstring("needs the key 'base_emb_dim'") &&
                                             ContainsSubstring("needs the key 'base_num_query_heads'") &&
                                             ContainsSubstring("needs the key 'base_num_decoder_layers'"));
}

TEST_CASE("D01 in the real schema") {
  const std::string text =
      std::string(smallest) + "[optimizer]\nlearning_rte = 3e-4\n[train]\nnum-steps = 10\ngradient_clipp1ng = 1\n";
  REQUIRE_THROWS_WITH(
      read("learning_rate = 3e-4\n" + text),
      ContainsSubstring("4 problems") &&
          ContainsSubstring(
              "a.toml:1:1: the key 'learning_rate' stands in no section; this key exists in section [optimizer]") &&
          ContainsSubstring(
              "a.toml:9:1: section [optimizer] has no key 'learning_rte'; did you mean 'learning_rate'?") &&
          ContainsSubstring("a.toml:11:1: unknown key 'num-steps': there is no section [train]; did you mean 'steps' "
                            "of section [run]?") &&
          ContainsSubstring("a.toml:12:1: unknown key 'gradient_clipp1ng': there is no section [train]; did you mean "
                            "'gradient_clipping_threshold' of section [optimizer]?"));
}

TEST_CASE("names that other software uses are answered") {
  const auto answer = [](const std::string& override, const std::string& sentence) {
    REQUIRE_THROWS_WITH(read(smallest, {override}), ContainsSubstring(sentence));
  };
  answer("model.model_name=deepseek3-671b", "models are files here");
  answer("model.weight_dtype=bfloat16", "master weights are always float32");
  answer("optimizer.cosine_learning_rate_final_fraction=0.1", "it is called 'learning_rate_final_fraction'");
  answer("data.steps=3", "this key exists in section [run]");
}

TEST_CASE("settings of quantization without a scheme are refused, unless the file says that there shall be none") {
  const std::string wishes =
      std::string(smallest) + "[quant]\nquantize_mtp = true\nweight_quantization_calibration_method = \"fixed,1\"\n";
  REQUIRE_THROWS_WITH(
      read(wishes),
      ContainsSubstring("2 problems") &&
          ContainsSubstring(
              "a.toml:8:16: quantize_mtp in section [quant] has nothing to act on: no 'quantization' names a scheme") &&
          ContainsSubstring("a.toml:9:42: weight_quantization_calibration_method"));
  CHECK_NOTHROW(read(wishes + "quantization = \"\"\n"));
  CHECK_NOTHROW(read(wishes, {"quant.quantization=int8_full"}));
}

TEST_CASE("no key stands in two sections, and each is described") {
  Document document = Document::parse(smallest, "a.toml");
  read_settings(document);
  document.finish();
  std::set<std::string> names;
  for (const KeyRecord& record : document.keys()) {
    INFO(record.section << "." << record.key.name);
    // Rules and the short form say the same things by the same names; dtype is a type there and here.
    const bool also_elsewhere = record.section.starts_with("quant.rules") || (record.section == "quant" && record.key.name == "dtype");
    if (!also_elsewhere) CHECK(names.insert(record.key.name).second);
    CHECK_FALSE(record.key.description.empty());
  }
}

TEST_CASE("every default passes the reader's own check, so that a resolved configuration reads back") {
  Document document = Document::parse(smallest, "a.toml");
  read_settings(document);
  document.finish();
  Document again = Document::parse(document.resolved(), "b.toml");
  read_settings(again);
  REQUIRE_NOTHROW(again.finish());
  CHECK(again.keys().size() == document.keys().size());
  for (size_t i = 0; i < again.keys().size(); ++i) CHECK(again.keys()[i].value == document.keys()[i].value);
}

TEST_CASE("D02 in the real schema: a section for a plugin that is not loaded") {
  REQUIRE_THROWS_WITH(
      read(std::string(smallest) + "[quant.plugins.not_loaded]\nblok = 1\n"),
      ContainsSubstring(
          "a.toml:7:16: section [quant.plugins.not_loaded]: no plugin 'not_loaded' is loaded (loaded: none)"));
}

TEST_CASE("the section of a key is known by its name") {
  CHECK(section_of("base_emb_dim") == "model");
  CHECK(section_of("quantization") == "quant");
  CHECK(section_of("model_name") == "");
}
