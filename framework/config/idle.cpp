#include "config/idle.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <string_view>

namespace kvant::config {
namespace {

struct Group {
  bool idle;
  std::string_view section, because;
  std::vector<std::string_view> keys;
};

std::vector<Group> groups_of(const Settings& s) {
  const ModelSettings& m = s.model;
  const OptimizerSettings& o = s.optimizer;
  const bool text = s.data.dataset_type == "text";
  return {
      {m.rope_type != RopeType::yarn, "model", "rope_type is not \"yarn\"",
       {"original_max_position_embeddings", "max_position_embeddings", "rope_factor", "beta_fast", "beta_slow", "mscale", "rope_truncate",
        "rope_attention_scaling"}},
      {m.num_moe_layers() == 0, "model", "every layer is dense",
       {"base_moe_mlp_dim", "num_experts_per_tok", "routed_score_func", "routed_scaling_factor", "routed_bias", "n_routing_groups",
        "topk_routing_group", "float32_gate_logits"}},
      {m.mtp_num_layers == 0, "model", "mtp_num_layers = 0", {"mtp_loss_scaling_factor"}},
      {m.init != Initialiser::normal, "model", "init is not \"normal\"", {"init_std"}},
      {!text, "data", "dataset_type = \"synthetic\" reads no text",
       {"tokenizer_type", "document_separator", "packing", "packing_type", "max_segments_per_seq", "eval_fraction", "data_shuffle_seed"}},
      {o.lr_schedule_type == "constant", "optimizer", "lr_schedule_type = \"constant\" does not decay", {"learning_rate_final_fraction"}},
      {o.lr_schedule_type != "wsd", "optimizer", "lr_schedule_type is not \"wsd\"", {"wsd_decay_steps_fraction", "wsd_decay_style"}},
      {!s.quant.anything(), "metrics", "nothing is quantized", {"quantization_stats"}},
      {s.metrics.eval_steps == 0, "metrics", "eval_steps = 0 turns evaluation off", {"eval_interval"}},
  };
}

}  // namespace

std::vector<std::string> find_idle(const Settings& settings, const Document& document) {
  std::vector<std::string> found;
  for (const Group& group : groups_of(settings)) {
    if (!group.idle) continue;
    for (const KeyRecord& record : document.keys()) {
      if (!record.given || record.value == record.fallback || record.section != group.section) continue;
      if (std::find(group.keys.begin(), group.keys.end(), record.key.name) == group.keys.end()) continue;
      found.push_back(fmt::format("{}: [{}] {} = {} changes nothing, since {}.", to_string(record.place), record.section, record.key.name,
                                  record.value, group.because));
    }
  }
  return found;
}

}  // namespace kvant::config
