// What cannot go together: every sentence has a case that brings it, and the clean settings bring none.
#include "base/error.hpp"
#include "config/settings.hpp"

#include <catch2/catch_test_macros.hpp>
#include <catch2/matchers/catch_matchers_string.hpp>

#include <functional>
#include <string>

using Catch::Matchers::ContainsSubstring;
using Catch::Matchers::Equals;
using namespace kvant::config;

namespace {

Settings clean() {
  Settings s;
  s.run.steps = 10;
  ModelSettings& m = s.model;
  m.vocab_size = 256;
  m.max_target_length = 32;
  m.base_emb_dim = 64;
  m.base_num_query_heads = 4;
  m.base_num_decoder_layers = 3;
  m.first_num_dense_layers = 1;
  m.base_mlp_dim = 128;
  m.base_moe_mlp_dim = 32;
  m.num_experts = 8;
  m.num_experts_per_tok = 2;
  m.mtp_num_layers = 1;
  s.quant.quantization = "int8_full";
  s.data.dataset_name = "gcide";
  s.data.global_batch_size = 8;
  return s;
}

struct Case {
  std::function<void(Settings&)> change;
  std::string sentence;  ///< a part of it
};

void check_each(const std::vector<Case>& cases, std::vector<std::string> (*find)(const Settings&)) {
  for (const Case& one : cases) {
    Settings s = clean();
    one.change(s);
    const std::vector<std::string> found = find(s);
    INFO(one.sentence);
    REQUIRE(found.size() == 1);
    CHECK_THAT(found.front(), ContainsSubstring(one.sentence));
  }
}

std::vector<std::string> run_conflicts(const Settings& s) { return find_run_conflicts(s); }

}  // namespace

TEST_CASE("settings that go together are let through") {
  const Settings s = clean();
  CHECK(find_model_conflicts(s).empty());
  CHECK(find_run_conflicts(s).empty());
  CHECK_NOTHROW(check(s));
  CHECK_NOTHROW(check(s, nullptr, 8));
}

TEST_CASE("sizes that together are too large are told") {
  check_each({{[](Settings& s) { s.model.base_emb_dim = s.model.base_mlp_dim = 1 << 24; }, "make a model of some 3.4e+15 parameters; at most 1e+15"},
              {[](Settings& s) { s.model.shared_experts = s.model.base_moe_mlp_dim = 1 << 16; }, "shared_experts × base_moe_mlp_dim = 4294967296 is the width"},
              {[](Settings& s) { s.model.base_num_query_heads = 1 << 23; }, "base_num_query_heads × (qk_nope_head_dim + v_head_dim) = 2147483648 is the width"}},
             find_model_conflicts);
  check_each({{[](Settings& s) { s.data.global_batch_size = 1 << 26; }, "× num_experts_per_tok = 2 are 4.29e+09 rows; at most 2147483647"},
              {[](Settings& s) {
                 s.data.global_batch_size = 0;
                 s.data.per_device_batch_size = 1 << 20;
                 s.data.gradient_accumulation_steps = 1 << 20;
               },
               "gradient_accumulation_steps = 1048576 × 1048576 sequences × 1 ranks are 1.10e+12 sequences"}},
             run_conflicts);
}

TEST_CASE("layers and experts that do not fit are named with both numbers") {
  check_each(
      {
          {[](Settings& s) {
             s.model.first_num_dense_layers = 4;
             s.model.num_experts = 0;
           },
           "first_num_dense_layers = 4 is more than base_num_decoder_layers = 3"},
          {[](Settings& s) { s.model.base_mlp_dim = 0; }, "1 dense layers, so base_mlp_dim must be at least 1"},
          {[](Settings& s) { s.model.first_num_dense_layers = 0; }, "base_mlp_dim = 128 is the width of dense layers"},
          {[](Settings& s) { s.model.first_num_dense_layers = 3; },
           "asks for 8 routed and 0 shared experts, but all 3 layers are dense"},
          {[](Settings& s) {
             s.model.first_num_dense_layers = 3;
             s.model.num_experts = 0;
             s.model.load_balance_loss_weight = 0.5;
           },
           "load_balance_loss_weight = 0.5 needs MoE layers"},
          {[](Settings& s) {
             s.model.num_experts = 0;
             s.model.num_experts_per_tok = 0;
             s.model.base_moe_mlp_dim = 1;
             s.model.num_experts = 1;
           },
           "num_experts_per_tok must be at least 1"},
          {[](Settings& s) { s.model.base_moe_mlp_dim = 0; }, "2 MoE layers, so base_moe_mlp_dim must be at least 1"},
          {[](Settings& s) { s.model.num_experts_per_tok = 9; },
           "num_experts_per_tok = 9 is more than num_experts = 8"},
      },
      find_model_conflicts);
  Settings s = clean();
  s.model.num_experts = 0;
  CHECK(find_model_conflicts(s).size() == 2);  // no experts, and more chosen than there are
}

TEST_CASE("heads and positions that do not fit are named") {
  const auto yarn = [](Settings& s) { s.model.rope_type = RopeType::yarn; };
  check_each(
      {
          {[](Settings& s) { s.model.base_num_kv_heads = 3; },
           "base_num_query_heads = 4 does not divide into base_num_kv_heads = 3"},
          {[](Settings& s) { s.model.base_num_kv_heads = 2; },
           "base_num_kv_heads = 2 differs from base_num_query_heads = 4"},
          {[](Settings& s) { s.model.qk_rope_head_dim = 15; }, "qk_rope_head_dim = 15 must be even"},
          {[&](Settings& s) {
             yarn(s);
             s.model.max_position_embeddings = 100;
           },
           "max_position_embeddings = 100 is less than original_max_position_embeddings = 4096"},
          {[&](Settings& s) {
             yarn(s);
             s.model.beta_fast = 0.5;
           },
           "beta_fast = 0.5 is less than beta_slow = 1"},
          {[&](Settings& s) {
             yarn(s);
             s.model.max_target_length = 200000;
           },
           "max_target_length = 200000 is more than max_position_embeddings = 163840"},
          {[](Settings& s) { s.model.mtp_num_layers = 31; },
           "mtp_num_layers = 31 predict 32 tokens ahead, but max_target_length = 32"},
          {[](Settings& s) { s.model.routed_bias_update_rate = 0.001; },
           "routed_bias_update_rate = 0.001 moves a bias, but routed_bias = false"},
      },
      find_model_conflicts);
  Settings s = clean();
  s.model.base_num_kv_heads = 4;
  CHECK(find_model_conflicts(s).empty());
  s.model.max_position_embeddings = 100;  // read by yarn only
  CHECK(find_model_conflicts(s).empty());
}

TEST_CASE("routing groups that do not divide are named") {
  const auto groups = [](int64_t n, int64_t k) {
    return [n, k](Settings& s) { s.model.n_routing_groups = n, s.model.topk_routing_group = k; };
  };
  check_each(
      {
          {groups(0, -1), "n_routing_groups = 0 means nothing"},
          {groups(-1, 0), "topk_routing_group = 0 means nothing"},
          {groups(4, -1), "n_routing_groups = 4 and topk_routing_group = -1 are given together or not at all"},
          {groups(3, 2), "num_experts = 8 does not divide into n_routing_groups = 3"},
          {groups(4, 5), "topk_routing_group = 5 is more than n_routing_groups = 4"},
          {groups(8, 2), "num_experts = 8 in n_routing_groups = 8 gives 1"},
          {[&](Settings& s) {
             groups(4, 1)(s);
             s.model.num_experts_per_tok = 3;
           },
           "num_experts_per_tok = 3 is more than the 2 experts of topk_routing_group = 1 groups"},
      },
      find_model_conflicts);
  Settings s = clean();
  groups(4, 2)(s);
  CHECK(find_model_conflicts(s).empty());
}

TEST_CASE("quantization that undoes or misses its object is named") {
  check_each(
      {
          {[](Settings& s) { s.quant.use_qwix_quantization = false; },
           "which knows int8, int8w, int4w, intmp, fp8 and nanoo_fp8; quantization = \"int8_full\" needs true"},
          {[](Settings& s) {
             s.quant.use_qwix_quantization = false;
             s.quant.quantization = "intmp";
           },
           "quantization = \"intmp\" needs quant_cfg_path"},
          {[](Settings& s) {
             s.quant.use_qwix_quantization = false;
             s.quant.quantization = "int8w";
             s.quant.qwix_compat = "xla";
           },
           "qwix_compat = \"xla\" is the arithmetic of the newer path"},
          {[](Settings& s) { s.quant.quantization = "int8w"; }, "set use_qwix_quantization = false"},
          {[](Settings& s) { s.quant.quantization = "nanoo_fp8"; }, "set use_qwix_quantization = false"},
          {[](Settings& s) { s.quant.quant_cfg_path = "/a.json"; }, "quant_cfg_path = \"/a.json\" is read by quantization = \"intmp\" only"},
          {[](Settings& s) { s.quant.quantization = "te_mxfp8"; }, "is a recipe of another library, which is not offered; mxfp8 comes nearest"},
          {[](Settings& s) { s.quant.quantization = "te_nvfp4_no_rht"; }, "nvfp4_train comes nearest"},
          {[](Settings& s) { s.quant.quantization = "te_fp8_delayedscaling"; }, "fp8_full or fp8_gpu comes nearest"},
          {[](Settings& s) { s.quant.quantization = "aqt_fp8"; }, "fp8_full or fp8_gpu comes nearest"},
          {[](Settings& s) { s.quant.bwd_delayed_scaling_margin = 2; }, "bwd_delayed_scaling_margin has nothing to act on, since bwd_delayed_scaling = false"},
          {[](Settings& s) {
             s.quant.bwd_delayed_scaling = true;
             s.quant.bwd_quantization_calibration_method = "fixed,1";
           },
           "so their calibration methods would be ignored"},
          {[](Settings& s) { s.quant.logits_proj_bwd_quant_calibration_method = "absmax"; },
           "logits_proj_bwd_quant_calibration_method = \"absmax\" has nothing to act on"},
          {[](Settings& s) { s.quant.quantize_router_proj = true; },
           "quantize_router_proj = true undoes [model] float32_gate_logits = true"},
          {[](Settings& s) {
             s.quant.quantize_mtp = true;
             s.model.mtp_num_layers = 0;
           },
           "quantize_mtp = true, but [model] mtp_num_layers = 0"},
          {[](Settings& s) {
             s.quant.quantize_logits_proj = true;
             s.model.logits_dot_in_fp32 = true;
           },
           "undoes [model] logits_dot_in_fp32 = true"},
          {[](Settings& s) { s.quant.logits_proj_quant_calibration_method = "absmax"; },
           "logits_proj_quant_calibration_method = \"absmax\" has nothing to act on, since quantize_logits_proj = "
           "false"},
          {[](Settings& s) { s.quant.quantization_local_shard_count = 0; },
           "quantization_local_shard_count = 0 means nothing"},
      },
      find_model_conflicts);
}

TEST_CASE("the older path and its values pass where they belong together") {
  for (const char* name : {"int8", "int8w", "int4w", "intmp", "fp8", "nanoo_fp8"}) {
    Settings s = clean();
    s.quant.use_qwix_quantization = false;
    s.quant.quantization = name;
    if (s.quant.quantization == "intmp") s.quant.quant_cfg_path = "/a.json";
    INFO(name);
    CHECK(find_model_conflicts(s).empty());
  }
  Settings s = clean();
  s.quant.use_qwix_quantization = false;
  s.quant.quantization = "int8";
  s.quant.quantization_local_shard_count = 0;  // there: no quantized weight gradient
  CHECK(find_model_conflicts(s).empty());
  s.quant.quantization_local_shard_count = 1;
  s.model.use_sliced_mla_proj = true;
  REQUIRE_THROWS_WITH(check_model(s), ContainsSubstring("the older path does not know slices"));
  s = clean();
  s.quant.quantize_logits_proj = s.model.logits_via_embedding = true;
  REQUIRE_THROWS_WITH(check_model(s), ContainsSubstring("quantize_logits_proj = true would quantize the embedding"));
}

TEST_CASE("what nothing honours yet is refused, not ignored") {
  check_each(
      {
          {[](Settings& s) { s.run.deterministic = false; }, "deterministic = false would change nothing"},
          {[](Settings& s) { s.model.logits_via_embedding = true; }, "logits_via_embedding = true is not offered yet"},
          {[](Settings& s) { s.model.float32_weight_sum = false; }, "float32_weight_sum = false is not offered"},
          {[](Settings& s) { s.model.norm_topk_prob = true; }, "norm_topk_prob = true has nothing to act on"},
      },
      find_model_conflicts);
}

TEST_CASE("an explicit absence of quantization lets the rest of the section stand") {
  Settings s = clean();
  s.quant.quantization = "";
  s.quant.quantize_mtp = s.quant.quantize_logits_proj = s.quant.quantize_router_proj = true;
  CHECK(find_model_conflicts(s).empty());
}

TEST_CASE("data, batch and schedule that do not fit are named") {
  check_each(
      {
          {[](Settings& s) { s.run.steps = 0; }, "steps is missing"},
          {[](Settings& s) { s.data.dataset_name = ""; }, "names no text"},
          {[](Settings& s) { s.data.dataset_path = {"/a.txt"}; },
           "names two texts, dataset_name = \"gcide\" and dataset_path = \"/a.txt\""},
          {[](Settings& s) { s.data.tokenizer_type = "sentencepiece"; }, "\"sentencepiece\" needs tokenizer_path"},
          {[](Settings& s) { s.data.tokenizer_path = "/t.model"; },
           "tokenizer_path = \"/t.model\" is read by tokenizer_type = \"sentencepiece\" only"},
          {[](Settings& s) { s.model.vocab_size = 255; },
           "\"bytes\" has 256 tokens, more than [model] vocab_size = 255"},
          {[](Settings& s) { s.data.max_segments_per_seq = 0; },
           "max_segments_per_seq = 0 leaves no document in a sequence"},
          {[](Settings& s) {
             s.data.packing = false;
             s.data.packing_type = "concat_then_split";
           },
           "packing_type = \"concat_then_split\" is read where packing = true only"},
          {[](Settings& s) {
             s.data.packing = false;
             s.data.max_segments_per_seq = 2;
           },
           "max_segments_per_seq = 2 is read where packing = true only"},
          {[](Settings& s) { s.data.eval_fraction = 0; },
           "eval_steps = 16 asks for evaluation, but [data] eval_fraction = 0"},
          {[](Settings& s) { s.data.dataset_type = "synthetic"; }, "dataset_type = \"synthetic\" reads no text"},
          {[](Settings& s) { s.data.global_batch_size = 0; }, "says nothing about the batch"},
          {[](Settings& s) { s.data.gradient_accumulation_steps = 3; },
           "global_batch_size = 8 does not divide by 1 ranks × gradient_accumulation_steps = 3"},
          {[](Settings& s) { s.data.per_device_batch_size = 3; },
           "global_batch_size = 8 is not per_device_batch_size = 3 × 1 ranks × gradient_accumulation_steps = 1"},
          {[](Settings& s) { s.optimizer.learning_rate_schedule_steps = 0; },
           "learning_rate_schedule_steps = 0 means nothing"},
          {[](Settings& s) {
             s.optimizer.lr_schedule_type = "wsd";
             s.optimizer.warmup_steps_fraction = 0.95;
           },
           "add up to more than 1"},
          {[](Settings& s) { s.metrics.eval_interval = 0; }, "eval_interval = 0 means nothing"},
      },
      run_conflicts);
  CHECK_THAT(find_run_conflicts(clean(), 3).front(), ContainsSubstring("does not divide by 3 ranks"));
}

TEST_CASE("all conflicts come in one go") {
  Settings s = clean();
  s.model.num_experts_per_tok = 9;
  s.model.qk_rope_head_dim = 7;
  s.data.global_batch_size = 0;
  REQUIRE_THROWS_WITH(
      check(s), ContainsSubstring("3 settings cannot go together:") && ContainsSubstring("num_experts_per_tok = 9") &&
                    ContainsSubstring("qk_rope_head_dim = 7") && ContainsSubstring("says nothing about the batch"));
  REQUIRE_THROWS_WITH(check_model(s), ContainsSubstring("2 settings cannot go together:"));
  s = clean();
  s.run.steps = 0;
  REQUIRE_THROWS_AS(check(s), kvant::UsageError);
  REQUIRE_THROWS_WITH(check(s), Equals("[run] steps is missing: a run needs at least 1 step."));
}

TEST_CASE("the sequences of a step come from either batch size") {
  DataSettings data;
  data.global_batch_size = 8;
  CHECK(sequences_per_step(data, 4) == 8);
  data = {};
  data.per_device_batch_size = 2;
  data.gradient_accumulation_steps = 3;
  CHECK(sequences_per_step(data, 4) == 24);
}
