// What cannot go together although each value alone is legal. One function for each section, one sentence for each
// problem.
#include <fmt/format.h>

#include "base/error.hpp"
#include "config/locate.hpp"
#include "config/settings.hpp"

#include <algorithm>
#include <regex>
#include <set>

namespace kvant::config {
namespace {

constexpr double largest_index = 2147483647;

class Conflicts {
 public:
  /// Adds the sentence where `wrong` holds.
  template <class... Args>
  void when(bool wrong, fmt::format_string<Args...> sentence, Args&&... args) {
    if (wrong) found.push_back(fmt::format(sentence, std::forward<Args>(args)...));
  }
  std::vector<std::string> found;
};

void check_layers(const ModelSettings& m, Conflicts& c) {
  c.when(m.first_num_dense_layers > m.base_num_decoder_layers,
         "[model] first_num_dense_layers = {} is more than base_num_decoder_layers = {}", m.first_num_dense_layers,
         m.base_num_decoder_layers);
  const bool has_dense = m.first_num_dense_layers > 0;
  const bool has_moe = m.num_moe_layers() > 0;
  c.when(has_dense && m.base_mlp_dim == 0, "[model] has {} dense layers, so base_mlp_dim must be at least 1; found 0",
         m.first_num_dense_layers);
  c.when(!has_dense && m.base_mlp_dim != 0,
         "[model] base_mlp_dim = {} is the width of dense layers, but first_num_dense_layers = 0 makes none",
         m.base_mlp_dim);
  if (!has_moe) {
    c.when(
        m.num_experts > 0 || m.shared_experts > 0,
        "[model] asks for {} routed and {} shared experts, but all {} layers are dense (first_num_dense_layers = {})",
        m.num_experts, m.shared_experts, m.base_num_decoder_layers, m.first_num_dense_layers);
    c.when(m.load_balance_loss_weight > 0.0,
           "[model] load_balance_loss_weight = {} needs MoE layers, but all {} layers are dense",
           m.load_balance_loss_weight, m.base_num_decoder_layers);
    return;
  }
  c.when(m.num_experts == 0, "[model] has {} MoE layers, so num_experts must be at least 1; found 0",
         m.num_moe_layers());
  c.when(m.base_moe_mlp_dim == 0, "[model] has {} MoE layers, so base_moe_mlp_dim must be at least 1; found 0",
         m.num_moe_layers());
  c.when(m.num_experts_per_tok == 0, "[model] has {} MoE layers, so num_experts_per_tok must be at least 1; found 0",
         m.num_moe_layers());
  c.when(m.num_experts_per_tok > m.num_experts, "[model] num_experts_per_tok = {} is more than num_experts = {}",
         m.num_experts_per_tok, m.num_experts);
}

void check_attention(const ModelSettings& m, Conflicts& c) {
  const int64_t kv = m.base_num_kv_heads;
  if (kv != 0 && m.base_num_query_heads % kv != 0)
    c.when(true, "[model] base_num_query_heads = {} does not divide into base_num_kv_heads = {}",
           m.base_num_query_heads, kv);
  else
    c.when(kv != 0 && kv != m.base_num_query_heads,
           "[model] base_num_kv_heads = {} differs from base_num_query_heads = {}: latent attention has one key head "
           "for each "
           "query head",
           kv, m.base_num_query_heads);
  c.when(m.qk_rope_head_dim % 2 != 0, "[model] qk_rope_head_dim = {} must be even: positions rotate pairs",
         m.qk_rope_head_dim);
  if (m.rope_type != RopeType::yarn) return;
  c.when(m.max_position_embeddings < m.original_max_position_embeddings,
         "[model] max_position_embeddings = {} is less than original_max_position_embeddings = {}",
         m.max_position_embeddings, m.original_max_position_embeddings);
  c.when(m.beta_fast < m.beta_slow, "[model] beta_fast = {} is less than beta_slow = {}", m.beta_fast, m.beta_slow);
  c.when(m.max_target_length > m.max_position_embeddings,
         "[model] max_target_length = {} is more than max_position_embeddings = {}", m.max_target_length,
         m.max_position_embeddings);
}

/// Each width has its own bound; here is what several of them make together, counted in double, which no setting overflows.
/// Parameters as in DeepSeek-V3 (MLA, gated MLPs); norms and biases do not matter at this size.
void check_size(const ModelSettings& m, Conflicts& c) {
  const auto real = [](int64_t n) { return static_cast<double>(n); };
  const double emb = real(m.base_emb_dim), heads = real(m.base_num_query_heads);
  const double queries = heads * real(m.qk_head_dim()), values = heads * real(m.v_head_dim);
  const double keys_and_values = heads * real(m.qk_nope_head_dim + m.v_head_dim), shared = real(m.shared_experts) * real(m.base_moe_mlp_dim);
  for (const auto& [name, width] : {std::pair("base_num_query_heads × (qk_nope_head_dim + qk_rope_head_dim)", queries),
                                    std::pair("base_num_query_heads × (qk_nope_head_dim + v_head_dim)", keys_and_values),
                                    std::pair("shared_experts × base_moe_mlp_dim", shared)})
    c.when(width > largest_index, "[model] {} = {:.0f} is the width of one matrix; at most {:.0f} is accepted", name, width, largest_index);
  const double rank = real(m.q_lora_rank);
  const double attention = (m.q_lora_rank > 0 ? rank * (emb + queries) : emb * queries) +
                           real(m.kv_lora_rank) * (emb + keys_and_values) + emb * real(m.qk_rope_head_dim) + emb * values;
  const double dense = 3 * emb * real(m.base_mlp_dim);
  const double experts = emb * real(m.num_experts) + 3 * emb * (real(m.num_experts) * real(m.base_moe_mlp_dim) + shared);
  const double layers = real(m.base_num_decoder_layers + m.mtp_num_layers);
  const double parameters = 2 * emb * real(m.vocab_size) + layers * (attention + std::max(dense, experts));
  constexpr double most = 1e15;
  c.when(parameters > most, "[model] base_emb_dim = {} and the other sizes make a model of some {:.1e} parameters; at most {:.0e} are accepted",
         m.base_emb_dim, parameters, most);
}

void check_groups(const ModelSettings& m, Conflicts& c) {
  const int64_t groups = m.n_routing_groups;
  const int64_t kept = m.topk_routing_group;
  c.when(groups == 0, "[model] n_routing_groups = 0 means nothing: -1 turns groups off");
  c.when(kept == 0, "[model] topk_routing_group = 0 means nothing: -1 turns groups off");
  c.when((groups > 0) != (kept > 0) && groups != 0 && kept != 0,
         "[model] n_routing_groups = {} and topk_routing_group = {} are given together or not at all", groups, kept);
  if (groups <= 0 || kept <= 0 || m.num_experts == 0) return;
  if (m.num_experts % groups != 0) {
    c.when(true, "[model] num_experts = {} does not divide into n_routing_groups = {}", m.num_experts, groups);
    return;
  }
  c.when(kept > groups, "[model] topk_routing_group = {} is more than n_routing_groups = {}", kept, groups);
  const int64_t in_group = m.num_experts / groups;
  c.when(in_group < 2,
         "[model] a routing group is ranked by its two best experts, but num_experts = {} in n_routing_groups = {} "
         "gives {}",
         m.num_experts, groups, in_group);
  c.when(kept <= groups && m.num_experts_per_tok > kept * in_group,
         "[model] num_experts_per_tok = {} is more than the {} experts of topk_routing_group = {} groups",
         m.num_experts_per_tok, kept * in_group, kept);
}

void check_router_and_mtp(const ModelSettings& m, Conflicts& c) {
  c.when(m.routed_bias_update_rate > 0.0 && !m.routed_bias,
         "[model] routed_bias_update_rate = {} moves a bias, but routed_bias = false: there is none",
         m.routed_bias_update_rate);
  c.when(m.mtp_num_layers + 1 >= m.max_target_length,
         "[model] mtp_num_layers = {} predict {} tokens ahead, but max_target_length = {}", m.mtp_num_layers,
         m.mtp_num_layers + 1, m.max_target_length);
}

/// What the reference has and this version does not: refused, since a setting that is read by nobody would be a lie.
void check_offered(const Settings& s, Conflicts& c) {
  const ModelSettings& m = s.model;
  c.when(!s.run.deterministic,
         "[run] deterministic = false would change nothing: every kernel of this version gives the same bits whatever "
         "the threads. Leave it true");
  c.when(m.logits_via_embedding, "[model] logits_via_embedding = true is not offered yet: the head has a matrix of its own");
  c.when(!m.float32_weight_sum, "[model] float32_weight_sum = false is not offered: experts are summed in float32");
  c.when(m.norm_topk_prob,
         "[model] norm_topk_prob = true has nothing to act on with decoder_block = \"deepseek\", whose sigmoid weights are "
         "always divided by their sum and whose softmax weights never are");
}

/// The reference's older path knows these values, and the newer one all others.
bool has_older_path(const std::string& quantization) {
  static const std::set<std::string, std::less<>> names = {"int8", "int8w", "int4w", "intmp", "fp8", "nanoo_fp8"};
  return names.contains(quantization);
}

void check_masks(const OptimizerSettings& o, Conflicts& c) {
  for (const std::string& text : o.adamw_mask) {
    try {
      const std::regex compiled(text);
    } catch (const std::regex_error& error) {
      c.when(true, "[optimizer] adamw_mask: \"{}\" is not a regular expression ({})", text, error.what());
    }
  }
}

void check_path(const QuantSettings& q, Conflicts& c) {
  const std::string& name = q.quantization;
  if (!q.use_qwix_quantization) {
    c.when(!has_older_path(name),
           "[quant] use_qwix_quantization = false is the reference's older path, which knows int8, int8w, int4w, intmp, fp8 "
           "and nanoo_fp8; quantization = \"{}\" needs true",
           name);
    c.when(name == "intmp" && q.quant_cfg_path.empty(),
           "[quant] quantization = \"intmp\" needs quant_cfg_path, the JSON file of bits by module");
    c.when(!q.qwix_compat.empty(),
           "[quant] qwix_compat = \"{}\" is the arithmetic of the newer path; use_qwix_quantization = false is the older one",
           q.qwix_compat);
  } else {
    c.when(has_older_path(name) && name != "int8" && name != "fp8",
           "[quant] quantization = \"{}\" belongs to the reference's older path: set use_qwix_quantization = false", name);
  }
  c.when(name != "intmp" && !q.quant_cfg_path.empty(),
         "[quant] quant_cfg_path = \"{}\" is read by quantization = \"intmp\" only; found \"{}\"", q.quant_cfg_path, name);
  c.when(name.starts_with("te_") || name.starts_with("aqt_"),
         "[quant] quantization = \"{}\" is a recipe of another library, which is not offered; {} comes nearest", name,
         name.starts_with("te_mxfp8") ? "mxfp8" : name.starts_with("te_nvfp4") ? "nvfp4_train" : "fp8_full or fp8_gpu");
}

void check_quant(const Settings& s, Conflicts& c) {
  const QuantSettings& q = s.quant;
  const ModelSettings& m = s.model;
  c.when(q.quantization_local_shard_count == 0 && q.use_qwix_quantization,
         "[quant] quantization_local_shard_count = 0 means nothing: -1 means 1");
  if (q.quantization.empty()) return;  // the reader has refused what then has nothing to act on
  check_path(q, c);
  c.when(q.quantize_router_proj && m.float32_gate_logits,
         "[quant] quantize_router_proj = true undoes [model] float32_gate_logits = true: set one of them to false");
  c.when(q.quantize_mtp && m.mtp_num_layers == 0,
         "[quant] quantize_mtp = true, but [model] mtp_num_layers = 0: there is no such block");
  c.when(q.quantize_logits_proj && m.logits_dot_in_fp32,
         "[quant] quantize_logits_proj = true undoes [model] logits_dot_in_fp32 = true: set one of them to false");
  c.when(q.quantize_logits_proj && m.logits_via_embedding,
         "[quant] quantize_logits_proj = true would quantize the embedding, which [model] logits_via_embedding = true makes "
         "the head: set one of them to false");
  c.when(!q.use_qwix_quantization && m.use_sliced_mla_proj,
         "[model] use_sliced_mla_proj = true goes with [quant] use_qwix_quantization = true only: the older path does not "
         "know slices");
  for (const auto& [name, method] :
       {std::pair("logits_proj_quant_calibration_method", &q.logits_proj_quant_calibration_method),
        std::pair("logits_proj_bwd_quant_calibration_method", &q.logits_proj_bwd_quant_calibration_method)})
    c.when(!q.quantize_logits_proj && !method->empty(),
           "[quant] {} = \"{}\" has nothing to act on, since quantize_logits_proj = false", name, *method);
  const QuantSettings d;
  c.when(q.bwd_delayed_scaling && (q.bwd_quantization_calibration_method != d.bwd_quantization_calibration_method ||
                                   !q.drhs_grad_quantization_calibration_method.empty()),
         "[quant] bwd_delayed_scaling = true takes the gradients' ranges from a history, so their calibration methods would be "
         "ignored: leave them out");
  const auto idle = [&](bool given, const char* key) {
    c.when(!q.bwd_delayed_scaling && given, "[quant] {} has nothing to act on, since bwd_delayed_scaling = false", key);
  };
  idle(q.bwd_delayed_scaling_history != d.bwd_delayed_scaling_history, "bwd_delayed_scaling_history");
  idle(q.bwd_delayed_scaling_margin != d.bwd_delayed_scaling_margin, "bwd_delayed_scaling_margin");
  idle(q.bwd_delayed_scaling_init != d.bwd_delayed_scaling_init, "bwd_delayed_scaling_init");
}

void check_data(const Settings& s, Conflicts& c) {
  const DataSettings& d = s.data;
  if (d.dataset_type == "text") {
    c.when(d.dataset_name.empty() && d.dataset_path.empty(), "[data] names no text: give dataset_path or dataset_name");
    c.when(!d.dataset_name.empty() && !d.dataset_path.empty(),
           "[data] names two texts, dataset_name = \"{}\" and dataset_path = \"{}\": give one of them (dataset_name = \"\" takes the first back)", d.dataset_name,
           d.dataset_path.empty() ? "" : d.dataset_path.front());
    c.when(d.tokenizer_type == "sentencepiece" && d.tokenizer_path.empty(),
           "[data] tokenizer_type = \"sentencepiece\" needs tokenizer_path");
    c.when(d.tokenizer_type == "bytes" && !d.tokenizer_path.empty(),
           "[data] tokenizer_path = \"{}\" is read by tokenizer_type = \"sentencepiece\" only; found \"bytes\"",
           d.tokenizer_path);
    c.when(d.tokenizer_type == "bytes" && s.model.vocab_size < 256,
           "[data] tokenizer_type = \"bytes\" has 256 tokens, more than [model] vocab_size = {}", s.model.vocab_size);
    c.when(d.max_segments_per_seq == 0,
           "[data] max_segments_per_seq = 0 leaves no document in a sequence: -1 means no limit");
    c.when(!d.packing && d.packing_type != DataSettings().packing_type,
           "[data] packing_type = \"{}\" is read where packing = true only; found false", d.packing_type);
    c.when(!d.packing && d.max_segments_per_seq != DataSettings().max_segments_per_seq,
           "[data] max_segments_per_seq = {} is read where packing = true only; found false", d.max_segments_per_seq);
    c.when(s.metrics.eval_steps != 0 && d.eval_fraction == 0.0,
           "[metrics] eval_steps = {} asks for evaluation, but [data] eval_fraction = 0 holds nothing out: set "
           "eval_steps = 0 or hold "
           "something out",
           s.metrics.eval_steps);
  } else {
    c.when(!d.dataset_name.empty() || !d.dataset_path.empty() || !d.tokenizer_path.empty(),
           "[data] dataset_type = \"{}\" reads no text, but a text or a tokenizer is named", d.dataset_type);
  }
}

void check_batch(const DataSettings& d, int ranks, Conflicts& c) {
  const int64_t shares = ranks * d.gradient_accumulation_steps;
  const std::string product =
      fmt::format("{} ranks × gradient_accumulation_steps = {}", ranks, d.gradient_accumulation_steps);
  if (d.global_batch_size == 0 && d.per_device_batch_size == 0)
    c.when(true, "[data] says nothing about the batch: give global_batch_size or per_device_batch_size");
  else if (d.per_device_batch_size == 0)
    c.when(d.global_batch_size % shares != 0, "[data] global_batch_size = {} does not divide by {}",
           d.global_batch_size, product);
  else
    c.when(d.global_batch_size != 0 && d.global_batch_size != d.per_device_batch_size * shares,
           "[data] global_batch_size = {} is not per_device_batch_size = {} × {}", d.global_batch_size,
           d.per_device_batch_size, product);
}

/// Rows of a micro-batch have numbers of 32 bits, those of (token, expert) pairs too.
void check_micro_batch(const Settings& s, int ranks, Conflicts& c) {
  const auto real = [](int64_t n) { return static_cast<double>(n); };
  const DataSettings& d = s.data;
  const double sequences = d.per_device_batch_size > 0
                               ? real(d.per_device_batch_size)
                               : real(d.global_batch_size) / (ranks * real(d.gradient_accumulation_steps));
  const double rows = sequences * real(s.model.max_target_length) * real(std::max<int64_t>(1, s.model.num_experts_per_tok));
  c.when(rows > largest_index,
         "[model] max_target_length = {} × {:.0f} sequences of a micro-batch × num_experts_per_tok = {} are {:.2e} rows; at most "
         "{:.0f} are accepted: more gradient_accumulation_steps make micro-batches smaller",
         s.model.max_target_length, sequences, s.model.num_experts_per_tok, rows, largest_index);
  const double step = sequences * ranks * real(d.gradient_accumulation_steps);
  c.when(step > largest_index,
         "[data] gradient_accumulation_steps = {} × {:.0f} sequences × {} ranks are {:.2e} sequences a step; at most {:.0f} are "
         "accepted",
         d.gradient_accumulation_steps, sequences, ranks, step, largest_index);
}

void check_schedule(const Settings& s, Conflicts& c) {
  c.when(s.run.steps == 0, "[run] steps is missing: a run needs at least 1 step");
  const OptimizerSettings& o = s.optimizer;
  c.when(o.learning_rate_schedule_steps == 0,
         "[optimizer] learning_rate_schedule_steps = 0 means nothing: -1 means as [run] steps");
  c.when(o.lr_schedule_type == "wsd" && o.warmup_steps_fraction + o.wsd_decay_steps_fraction > 1.0,
         "[optimizer] warmup_steps_fraction = {} and wsd_decay_steps_fraction = {} add up to more than 1",
         o.warmup_steps_fraction, o.wsd_decay_steps_fraction);
  c.when(s.metrics.eval_interval == 0, "[metrics] eval_interval = 0 means nothing: -1 evaluates at the end only");
}

void throw_all(const std::vector<std::string>& found, const Document* document) {
  if (found.empty()) return;
  const auto with_place = [&](const std::string& sentence) { return document == nullptr ? sentence : located(*document, sentence); };
  if (found.size() == 1) throw UsageError(with_place(found.front()) + ".");
  std::string text = fmt::format("{} settings cannot go together:", found.size());
  for (const std::string& sentence : found) text += "\n  " + with_place(sentence);
  throw UsageError(text);
}

}  // namespace

std::vector<std::string> find_model_conflicts(const Settings& settings) {
  Conflicts conflicts;
  check_layers(settings.model, conflicts);
  check_attention(settings.model, conflicts);
  check_size(settings.model, conflicts);
  check_groups(settings.model, conflicts);
  check_router_and_mtp(settings.model, conflicts);
  check_offered(settings, conflicts);
  check_masks(settings.optimizer, conflicts);
  check_quant(settings, conflicts);
  return std::move(conflicts.found);
}

std::vector<std::string> find_run_conflicts(const Settings& settings, int ranks) {
  Conflicts conflicts;
  check_schedule(settings, conflicts);
  check_data(settings, conflicts);
  check_batch(settings.data, ranks, conflicts);
  check_micro_batch(settings, ranks, conflicts);
  return std::move(conflicts.found);
}

void check_model(const Settings& settings, const Document* document) { throw_all(find_model_conflicts(settings), document); }

void check(const Settings& settings, const Document* document, int ranks) {
  std::vector<std::string> found = find_model_conflicts(settings);
  for (std::string& sentence : find_run_conflicts(settings, ranks)) found.push_back(std::move(sentence));
  throw_all(found, document);
}

int64_t sequences_per_step(const DataSettings& data, int ranks) {
  if (data.per_device_batch_size == 0) return data.global_batch_size;
  return data.per_device_batch_size * ranks * data.gradient_accumulation_steps;
}

}  // namespace kvant::config
