// What is given and changes nothing is told.
#include "config/idle.hpp"

#include <catch2/catch_test_macros.hpp>
#include <catch2/matchers/catch_matchers_string.hpp>

#include <set>

using namespace kvant::config;
using Catch::Matchers::ContainsSubstring;

namespace {

const std::string whole =
    "[model]\nvocab_size = 256\nmax_target_length = 64\nbase_emb_dim = 64\nbase_num_query_heads = 4\nbase_num_decoder_layers = 2\n"
    "base_moe_mlp_dim = 32\nnum_experts = 4\nnum_experts_per_tok = 2\n";

std::vector<std::string> idle(const std::vector<std::string>& overrides) {
  Document document = Document::parse(whole, "a.toml", overrides);
  const Settings settings = read_settings(document);
  document.finish();
  return find_idle(settings, document);
}

}  // namespace

TEST_CASE("nothing is idle in a plain model, and defaults never are") {
  CHECK(idle({}).empty());
  CHECK(idle({"model.rope_factor=40", "optimizer.wsd_decay_style=linear", "metrics.eval_interval=-1", "metrics.eval_steps=0"}).empty());
}

TEST_CASE("each group tells its keys with place, value and reason") {
  const auto tells = [](const std::vector<std::string>& overrides, const std::string& text) {
    const std::vector<std::string> found = idle(overrides);
    INFO(text);
    REQUIRE(found.size() == 1);
    CHECK_THAT(found.front(), ContainsSubstring(text));
  };
  tells({"model.rope_factor=4.0"}, "--set model.rope_factor=4.0: [model] rope_factor = 4.0 changes nothing, since rope_type is not \"yarn\".");
  tells({"model.mtp_loss_scaling_factor=0.5"}, "since mtp_num_layers = 0");
  tells({"model.init=maxtext", "model.init_std=0.5"}, "init_std = 0.5");
  tells({"data.dataset_type=synthetic", "data.packing=false"}, "dataset_type = \"synthetic\" reads no text");
  tells({"optimizer.lr_schedule_type=constant", "optimizer.learning_rate_final_fraction=0.5"}, "does not decay");
  tells({"optimizer.wsd_decay_style=cosine"}, "lr_schedule_type is not \"wsd\"");
  tells({"metrics.eval_steps=0", "metrics.eval_interval=5"}, "eval_steps = 0 turns evaluation off");
  CHECK(idle({"model.base_mlp_dim=64", "model.first_num_dense_layers=2", "model.num_experts=0"}).size() == 2);  // base_moe_mlp_dim, num_experts_per_tok
  CHECK(idle({"model.rope_type=yarn", "model.rope_factor=4.0"}).empty());
  CHECK(idle({"model.mtp_num_layers=1", "model.mtp_loss_scaling_factor=0.5"}).empty());
}

TEST_CASE("every key that is named exists") {
  Document document = Document::parse(whole, "a.toml", {});
  (void)read_settings(document);
  std::set<std::string> names;
  for (const KeyRecord& record : document.keys()) names.insert(record.section + "." + record.key.name);
  for (const char* name :
       {"model.original_max_position_embeddings", "model.max_position_embeddings", "model.rope_factor", "model.beta_fast", "model.beta_slow",
        "model.mscale", "model.rope_truncate", "model.rope_attention_scaling", "model.base_moe_mlp_dim", "model.num_experts_per_tok",
        "model.routed_score_func", "model.routed_scaling_factor", "model.routed_bias", "model.n_routing_groups", "model.topk_routing_group",
        "model.float32_gate_logits", "model.mtp_loss_scaling_factor", "model.init_std", "data.tokenizer_type", "data.document_separator",
        "data.packing", "data.packing_type", "data.max_segments_per_seq", "data.eval_fraction", "data.data_shuffle_seed",
        "optimizer.learning_rate_final_fraction", "optimizer.wsd_decay_steps_fraction", "optimizer.wsd_decay_style", "metrics.eval_interval"}) {
    INFO(name);
    CHECK(names.contains(name));
  }
}
