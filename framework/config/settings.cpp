// The readers of the sections, in the order of settings.hpp. Descriptions become docs/configuration.md.
#include "config/settings.hpp"

#include <fmt/format.h>

#include "config/detail/read_quant.hpp"
#include "config/document.hpp"

namespace kvant::config {
namespace {

// Upper bounds: far beyond what anybody trains, and such that no product of two of them leaves 63 bits. What three of them
// give together is looked at in conflicts.cpp.
constexpr int64_t widest = int64_t{1} << 24;         // a width, or a number of heads, experts, groups
constexpr int64_t most_layers = int64_t{1} << 16;
constexpr int64_t most_tokens = int64_t{1} << 28;    // of a vocabulary, of a sequence
constexpr int64_t most_sequences = int64_t{1} << 30;
constexpr int64_t most_steps = 1'000'000'000'000;

void refuse_empty_names(Section& section, const char* key, const std::vector<std::string>& names) {
  for (const std::string& name : names)
    if (name.empty()) return section.refuse(key, fmt::format("{} in section [{}] has an empty name; a list of none is written []", key, section.path()));
}

RunSettings read_run(Document& document) {
  RunSettings s;
  Section section = document.section("run");
  s.steps =
      section.take_int({"steps", "optimizer steps of the run; a run needs at least 1", "steps"}, s.steps, between<int64_t>(0, most_steps));
  s.seed = static_cast<uint64_t>(section.take_int(
      {"seed",
       "fixes initial weights, noise of rounding and, unless data_shuffle_seed is given, the order of the data"},
      static_cast<int64_t>(s.seed), at_least(0)));
  s.deterministic =
      section.take({"deterministic",
                    "the same bits whatever the number of threads; the number of micro-batches moves the last bits of gradients. false is refused: every "
                    "kernel of this version is deterministic"},
                   s.deterministic);
  s.plugins = section.take(
      {"plugins", "plugins to load beside those that other keys name: names, or absolute paths of files"}, s.plugins);
  refuse_empty_names(section, "plugins", s.plugins);
  return s;
}

void read_shape(Section& section, ModelSettings& s) {
  s.decoder_block = section.take_enum({"decoder_block", "family of the decoder layers"}, s.decoder_block,
                                      {{"deepseek", DecoderBlock::deepseek}});
  s.vocab_size =
      section.require_int({"vocab_size", "rows of the embedding and columns of the head", "tokens"}, between<int64_t>(2, most_tokens));
  s.max_target_length = section.require_int({"max_target_length", "length of a sequence", "tokens"}, between<int64_t>(2, most_tokens));
  s.base_emb_dim = section.require_int({"base_emb_dim", "width of the residual stream"}, between<int64_t>(1, widest));
  s.base_num_query_heads = section.require_int({"base_num_query_heads", "attention heads"}, between<int64_t>(1, widest));
  s.base_num_kv_heads = section.take_int(
      {"base_num_kv_heads",
       "heads of keys and values; 0 = as base_num_query_heads, and latent attention takes no other number"},
      s.base_num_kv_heads, between<int64_t>(0, widest));
  s.base_num_decoder_layers =
      section.require_int({"base_num_decoder_layers", "decoder layers, dense ones included"}, between<int64_t>(1, most_layers));
  s.first_num_dense_layers =
      section.take_int({"first_num_dense_layers", "layers at the bottom that have one dense MLP instead of experts"},
                       s.first_num_dense_layers, between<int64_t>(0, most_layers));
  s.base_mlp_dim =
      section.take_int({"base_mlp_dim", "hidden width of a dense layer's MLP; needed where there are dense layers"},
                       s.base_mlp_dim, between<int64_t>(0, widest));
  s.base_moe_mlp_dim =
      section.take_int({"base_moe_mlp_dim", "hidden width of one expert; needed where there are MoE layers"},
                       s.base_moe_mlp_dim, between<int64_t>(0, widest));
  s.num_experts = section.take_int({"num_experts", "routed experts of an MoE layer"}, s.num_experts, between<int64_t>(0, widest));
  s.num_experts_per_tok = section.take_int({"num_experts_per_tok", "routed experts that a token visits"},
                                           s.num_experts_per_tok, between<int64_t>(0, widest));
  s.shared_experts = section.take_int(
      {"shared_experts", "experts that every token visits, fused into one MLP of shared_experts × base_moe_mlp_dim"},
      s.shared_experts, between<int64_t>(0, widest));
}

void read_attention(Section& section, ModelSettings& s) {
  s.q_lora_rank = section.take_int({"q_lora_rank", "rank of the query projection; 0 = one full matrix"}, s.q_lora_rank,
                                   between<int64_t>(0, widest));
  s.kv_lora_rank =
      section.take_int({"kv_lora_rank", "rank of the joint key and value projection"}, s.kv_lora_rank, between<int64_t>(1, widest));
  s.qk_nope_head_dim = section.take_int({"qk_nope_head_dim", "width of a head's query and key without position"},
                                        s.qk_nope_head_dim, between<int64_t>(1, widest));
  s.qk_rope_head_dim =
      section.take_int({"qk_rope_head_dim", "width of a head's query and key that is rotated by position; even"},
                       s.qk_rope_head_dim, between<int64_t>(2, widest));
  s.v_head_dim = section.take_int({"v_head_dim", "width of a head's value"}, s.v_head_dim, between<int64_t>(1, widest));
  s.use_sliced_mla_proj =
      section.take({"use_sliced_mla_proj",
                    "run wq_b and wkv_b as two matmuls each (nope | rope, nope | value) instead of one that is split"},
                   s.use_sliced_mla_proj);
}

void read_rope(Section& section, ModelSettings& s) {
  s.rope_type = section.take_enum({"rope_type", "rotary positions as they are, or stretched by YaRN"}, s.rope_type,
                                  {{"default", RopeType::plain}, {"yarn", RopeType::yarn}});
  s.rope_interleave =
      section.take({"rope_interleave", "rotated pairs are neighbours (2i, 2i+1) rather than halves (i, i + dim/2)"},
                   s.rope_interleave);
  s.rope_max_timescale =
      section.take_real({"rope_max_timescale", "base θ of the rotary frequencies"}, s.rope_max_timescale, above(1.0));
  s.original_max_position_embeddings = section.take_int(
      {"original_max_position_embeddings", "yarn: length that the unstretched positions were made for", "tokens"},
      s.original_max_position_embeddings, between<int64_t>(1, most_tokens));
  s.max_position_embeddings = section.take_int(
      {"max_position_embeddings",
       "yarn: stretched length; above the original one, scores are scaled by the square of mscale's factor", "tokens"},
      s.max_position_embeddings, between<int64_t>(1, most_tokens));
  s.rope_factor = section.take_real({"rope_factor", "yarn: factor of the stretch"}, s.rope_factor, at_least(1.0));
  s.beta_fast = section.take_real({"beta_fast", "yarn: turns over the original length above which a frequency stays"},
                                  s.beta_fast, above(0.0));
  s.beta_slow = section.take_real(
      {"beta_slow", "yarn: turns over the original length below which a frequency is divided by the factor"},
      s.beta_slow, above(0.0));
  s.mscale = section.take_real({"mscale", "yarn: scores are multiplied by (0.1·mscale·ln(rope_factor) + 1)²"}, s.mscale,
                               at_least(0.0));
  s.rope_truncate =
      section.take({"rope_truncate", "yarn: round the bounds of the ramp between the two betas to whole frequencies"},
                   s.rope_truncate);
  s.rope_attention_scaling =
      section.take({"rope_attention_scaling", "yarn: multiply cosines and sines by 0.1·ln(rope_factor) + 1 as well"},
                   s.rope_attention_scaling);
}

void read_router(Section& section, ModelSettings& s) {
  s.routed_score_func = section.take_enum(
      {"routed_score_func", "what turns the router's logits into scores; \"\" = nothing"}, s.routed_score_func,
      {{"", ScoreFunction::identity},
       {"softmax", ScoreFunction::softmax},
       {"sigmoid", ScoreFunction::sigmoid},
       {"sqrtsoftplus", ScoreFunction::sqrtsoftplus}});
  s.routed_bias =
      section.take({"routed_bias", "a bias per expert that takes part in the choice of experts, not in their weights"},
                   s.routed_bias);
  s.routed_bias_update_rate = section.take_real(
      {"routed_bias_update_rate", "step of the bias towards even load, once per optimizer step; 0 = it never moves"},
      s.routed_bias_update_rate, at_least(0.0));
  s.routed_scaling_factor = section.take_real({"routed_scaling_factor", "factor on the weights of the chosen experts"},
                                              s.routed_scaling_factor, above(0.0));
  s.norm_topk_prob =
      section.take({"norm_topk_prob", "divide the weights of the chosen experts by their sum"}, s.norm_topk_prob);
  s.n_routing_groups = section.take_int({"n_routing_groups", "groups that experts are chosen from; -1 = no groups"},
                                        s.n_routing_groups, between<int64_t>(-1, widest));
  s.topk_routing_group =
      section.take_int({"topk_routing_group", "groups that a token's experts may come from; -1 = no groups"},
                       s.topk_routing_group, between<int64_t>(-1, widest));
  s.load_balance_loss_weight = section.take_real({"load_balance_loss_weight", "weight of the load-balance loss"},
                                                 s.load_balance_loss_weight, at_least(0.0));
  s.float32_gate_logits =
      section.take({"float32_gate_logits", "the router's matmul in float32 whatever dtype is"}, s.float32_gate_logits);
  s.float32_weight_sum = section.take({"float32_weight_sum", "sum the experts' outputs in float32 whatever dtype is"},
                                      s.float32_weight_sum);
}

void read_head_and_types(Section& section, ModelSettings& s) {
  s.mtp_num_layers =
      section.take_int({"mtp_num_layers", "multi-token-prediction modules"}, s.mtp_num_layers, between<int64_t>(0, most_layers));
  s.mtp_loss_scaling_factor =
      section.take_real({"mtp_loss_scaling_factor", "weight of the multi-token-prediction loss"},
                        s.mtp_loss_scaling_factor, at_least(0.0));
  s.normalization_layer_epsilon =
      section.take_real({"normalization_layer_epsilon", "added to the mean square in RMSNorm"},
                        s.normalization_layer_epsilon, above(0.0));
  s.logits_via_embedding =
      section.take({"logits_via_embedding", "the head is the transposed embedding instead of a matrix of its own; true is not offered yet"},
                   s.logits_via_embedding);
  s.logits_dot_in_fp32 =
      section.take({"logits_dot_in_fp32", "the head's matmul in float32 whatever dtype is"}, s.logits_dot_in_fp32);
  s.z_loss_multiplier =
      section.take_real({"z_loss_multiplier", "weight of the squared log of the softmax's denominator"},
                        s.z_loss_multiplier, at_least(0.0));
  s.dtype = section.take_enum({"dtype", "type in which activations are stored; master weights are float32"}, s.dtype,
                              {{"float32", ComputeType::float32}, {"bfloat16", ComputeType::bfloat16}});
  s.remat_policy =
      section.take_enum({"remat_policy", "full: a layer keeps its input and runs forward again in backward"},
                        s.remat_policy, {{"none", Remat::none}, {"full", Remat::full}});
  s.init = section.take_enum(
      {"init", "initial weights: MaxText's distributions, or one normal distribution for every matrix"}, s.init,
      {{"maxtext", Initialiser::maxtext}, {"normal", Initialiser::normal}});
  s.init_std = section.take_real({"init_std", "standard deviation of init = \"normal\""}, s.init_std, above(0.0));
}

ModelSettings read_model(Document& document) {
  ModelSettings s;
  Section section = document.section("model");
  read_shape(section, s);
  read_attention(section, s);
  read_rope(section, s);
  read_router(section, s);
  read_head_and_types(section, s);
  return s;
}

DataSettings read_data(Document& document) {
  DataSettings s;
  Section section = document.section("data");
  s.dataset_type = section.take_choice({"dataset_type", "text, or random tokens that are the same batch every step"},
                                       s.dataset_type, {"text", "synthetic"});
  s.dataset_name =
      section.take({"dataset_name", "a text that set-up fetches, by name; instead of dataset_path"}, s.dataset_name);
  s.dataset_path = section.take_paths(
      {"dataset_path", "text files or folders of them in this order, relative to the file that says so"},
      s.dataset_path);
  refuse_empty_names(section, "dataset_path", s.dataset_path);
  s.tokenizer_type = section.take_choice({"tokenizer_type", "one token per byte, or a SentencePiece model"},
                                         s.tokenizer_type, {"bytes", "sentencepiece"});
  s.tokenizer_path = section.take_path({"tokenizer_path", "the SentencePiece model, relative to the file that says so"},
                                       s.tokenizer_path);
  s.document_separator = section.take_choice(
      {"document_separator",
       "what ends a document: blank lines before a line that is not indented, any blank line, or the end of the file"},
      s.document_separator, {"entry", "blank_line", "file"});
  s.packing = section.take(
      {"packing", "several documents in one sequence, kept apart by segment; false: one document a sequence, padded"},
      s.packing);
  s.packing_type = section.take_choice(
      {"packing_type",
       "whole documents where they fit first, or all documents one after the other, cut at the length of a sequence"},
      s.packing_type, {"first_fit", "concat_then_split"});
  s.max_segments_per_seq =
      section.take_int({"max_segments_per_seq", "most documents in one sequence; -1 = no limit", "documents"},
                       s.max_segments_per_seq, between<int64_t>(-1, most_tokens));
  s.eval_fraction = section.take_real(
      {"eval_fraction", "share of the documents that is held out for evaluation, drawn by the order of the data",
       "fraction"},
      s.eval_fraction, from_up_to(0.0, 1.0));
  s.global_batch_size = section.take_int(
      {"global_batch_size",
       "sequences of one optimizer step, over all ranks and micro-batches; instead of per_device_batch_size",
       "sequences"},
      s.global_batch_size, between<int64_t>(0, most_sequences));
  s.per_device_batch_size =
      section.take_int({"per_device_batch_size", "sequences of one micro-batch on one rank", "sequences"},
                       s.per_device_batch_size, between<int64_t>(0, most_sequences));
  s.gradient_accumulation_steps =
      section.take_int({"gradient_accumulation_steps", "micro-batches of one optimizer step", "micro-batches"},
                       s.gradient_accumulation_steps, between<int64_t>(1, most_sequences));
  s.data_shuffle_seed = section.take_int(
      {"data_shuffle_seed", "order of the data and choice of what is held out; -1 = as the run's seed"},
      s.data_shuffle_seed, at_least(-1));
  return s;
}

OptimizerSettings read_optimizer(Document& document) {
  OptimizerSettings s;
  Section section = document.section("optimizer");
  s.opt_type = section.take_choice({"opt_type", "the optimizer"}, s.opt_type, {"adamw"});
  s.learning_rate = section.take_real({"learning_rate", "highest learning rate, reached after the warm-up"},
                                      s.learning_rate, at_least(0.0));
  s.lr_schedule_type = section.take_choice(
      {"lr_schedule_type",
       "after the warm-up: cosine to the final fraction, constant with a decay at the end (wsd), or constant"},
      s.lr_schedule_type, {"cosine", "wsd", "constant"});
  s.warmup_steps_fraction =
      section.take_real({"warmup_steps_fraction", "part of the schedule that climbs from 0", "fraction"},
                        s.warmup_steps_fraction, between(0.0, 1.0));
  s.learning_rate_final_fraction = section.take_real(
      {"learning_rate_final_fraction", "last learning rate over the highest one (cosine, wsd)", "fraction"},
      s.learning_rate_final_fraction, between(0.0, 1.0));
  s.wsd_decay_steps_fraction =
      section.take_real({"wsd_decay_steps_fraction", "wsd: part of the schedule that decays", "fraction"},
                        s.wsd_decay_steps_fraction, between(0.0, 1.0));
  s.wsd_decay_style =
      section.take_choice({"wsd_decay_style", "wsd: shape of the decay"}, s.wsd_decay_style, {"linear", "cosine"});
  s.learning_rate_schedule_steps =
      section.take_int({"learning_rate_schedule_steps",
                        "length of the schedule, after which the learning rate is 0; -1 = as the run's steps", "steps"},
                       s.learning_rate_schedule_steps, between<int64_t>(-1, most_steps));
  s.adam_b1 = section.take_real({"adam_b1", "decay of the mean gradient"}, s.adam_b1, from_up_to(0.0, 1.0));
  s.adam_b2 = section.take_real({"adam_b2", "decay of the mean squared gradient"}, s.adam_b2, from_up_to(0.0, 1.0));
  s.adam_eps =
      section.take_real({"adam_eps", "added to the root of the mean squared gradient"}, s.adam_eps, at_least(0.0));
  s.adam_eps_root = section.take_real({"adam_eps_root", "added under that root"}, s.adam_eps_root, at_least(0.0));
  s.adam_weight_decay = section.take_real({"adam_weight_decay", "decay of the weights, times the learning rate"},
                                          s.adam_weight_decay, at_least(0.0));
  s.adamw_mask = section.take(
      {"adamw_mask", "regular expressions; a parameter whose path contains a match is not decayed"}, s.adamw_mask);
  s.gradient_clipping_threshold =
      section.take_real({"gradient_clipping_threshold", "largest global norm of the gradient; 0 = no clipping"},
                        s.gradient_clipping_threshold, at_least(0.0));
  return s;
}

MetricsSettings read_metrics(Document& document) {
  MetricsSettings s;
  Section section = document.section("metrics");
  s.log_period =
      section.take_int({"log_period", "steps between two lines on the console; the files get every step", "steps"},
                       s.log_period, between<int64_t>(1, most_steps));
  s.quantization_stats = section.take({"quantization_stats",
                                       "every log_period steps, of every quantized operand of every site: largest value, scale, share that "
                                       "saturated, share that became 0; such a step is slower"},
                                      s.quantization_stats);
  s.eval_interval = section.take_int({"eval_interval", "steps between two evaluations; -1 = one at the end", "steps"},
                                     s.eval_interval, between<int64_t>(-1, most_steps));
  s.eval_steps = section.take_int(
      {"eval_steps", "batches of one evaluation; -1 = the whole held-out text, 0 = no evaluation", "batches"},
      s.eval_steps, between<int64_t>(-1, most_steps));
  return s;
}

/// Names that people bring from elsewhere.
void add_hints(Document& document) {
  const std::pair<const char*, const char*> hints[] = {
      {"model_name", "models are files here: extends = \"models/deepseek3-tiny.toml\" at the top of the file"},
      {"base_config", "layers are written extends = \"file.toml\" at the top of the file"},
      {"weight_dtype", "master weights are always float32; leave the key out"},
      {"grad_dtype", "gradients of parameters are always float32; leave the key out"},
      {"mu_dtype", "optimizer state is always float32; leave the key out"},
      {"cosine_learning_rate_final_fraction", "it is called 'learning_rate_final_fraction' in section [optimizer]"},
      {"init_weights_seed", "it is 'seed' of section [run]"},
      {"lr", "did you mean 'learning_rate' of section [optimizer]?"},
      {"weight_decay", "did you mean 'adam_weight_decay' of section [optimizer]?"},
      {"enable_checkpointing", "this version keeps no checkpoints"},
      {"checkpoint_period", "this version keeps no checkpoints"},
  };
  for (const auto& [name, sentence] : hints) document.hint(name, sentence);
}

}  // namespace

Settings read_settings(Document& document) {
  Settings settings;
  settings.run = read_run(document);
  settings.model = read_model(document);
  settings.quant = detail::read_quant(document);
  settings.data = read_data(document);
  settings.optimizer = read_optimizer(document);
  settings.metrics = read_metrics(document);
  document.declare_family("quant.plugins", "plugin");
  add_hints(document);
  detail::hint_at_foreign_names(document);
  return settings;
}

std::string section_of(const std::string& key) {
  Document document = Document::parse("", "");
  read_settings(document);
  for (const KeyRecord& record : document.keys())
    if (record.key.name == key) return record.section;
  return {};
}

}  // namespace kvant::config
