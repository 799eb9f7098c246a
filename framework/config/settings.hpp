// What a configuration file says, as plain data: one struct for each section, names as in MaxText, defaults written
// here and nowhere else. read_settings fills them from a Document; check() finds what cannot go together.
#pragma once

#include "config/quant_settings.hpp"

#include <cstdint>
#include <string>
#include <vector>

namespace kvant::config {

/// Element type in which activations live between operations. Master weights and optimizer state are always float32.
enum class ComputeType { float32, bfloat16 };
enum class Initialiser {
  maxtext,  ///< MaxText's initial distributions (fan-in scaled; N(0,1) for the embedding)
  normal,   ///< N(0, init_std) for every matrix and the embedding, 1 for norm scales, 0 for biases
};
enum class DecoderBlock { deepseek };
enum class RopeType { plain, yarn };                                    ///< written "default" and "yarn" in the file
enum class ScoreFunction { identity, softmax, sigmoid, sqrtsoftplus };  ///< identity is written ""
enum class Remat {
  none,  ///< every activation that backward needs is kept
  full,  ///< a decoder layer keeps its input only and runs forward again in backward
};

/// [run]
struct RunSettings {
  int64_t steps = 0;          ///< optimizer steps; a run needs at least 1 (0 = not given)
  uint64_t seed = 0;          ///< fixes initial weights, data order (unless data_shuffle_seed is given) and noise
  bool deterministic = true;  ///< same bits whatever the threads; a kernel that cannot is refused
  std::vector<std::string> plugins;  ///< plugin names or absolute paths to load beside those that other keys name
};

/// [model]. L layers, of which the first `first_num_dense_layers` are dense and the rest are mixtures of experts.
struct ModelSettings {
  DecoderBlock decoder_block = DecoderBlock::deepseek;
  int64_t vocab_size = 0;               ///< V; required
  int64_t max_target_length = 0;        ///< S, tokens of a sequence; required
  int64_t base_emb_dim = 0;             ///< E; required
  int64_t base_num_query_heads = 0;     ///< H; required
  int64_t base_num_kv_heads = 0;        ///< 0 = H; latent attention takes no other number
  int64_t base_num_decoder_layers = 0;  ///< L; required
  int64_t first_num_dense_layers = 0;
  int64_t base_mlp_dim = 0;         ///< M, hidden width of dense layers
  int64_t base_moe_mlp_dim = 0;     ///< F, hidden width of one expert
  int64_t num_experts = 0;          ///< X
  int64_t num_experts_per_tok = 0;  ///< K
  int64_t shared_experts = 0;       ///< n, fused as one MLP of width n·F

  // Multi-head latent attention.
  int64_t q_lora_rank = 0;         ///< rq; 0 = one full query projection
  int64_t kv_lora_rank = 512;      ///< rkv
  int64_t qk_nope_head_dim = 128;  ///< dn
  int64_t qk_rope_head_dim = 64;   ///< dr, even
  int64_t v_head_dim = 128;        ///< dv
  bool use_sliced_mla_proj = false;

  // Rotary positions; everything after rope_max_timescale is read by yarn only.
  RopeType rope_type = RopeType::plain;
  bool rope_interleave = true;  ///< input pairs are (x_2i, x_2i+1); false: (x_i, x_i+dr/2)
  double rope_max_timescale = 10000.0;
  int64_t original_max_position_embeddings = 4096;
  int64_t max_position_embeddings = 163840;
  double rope_factor = 40.0;
  double beta_fast = 32.0;
  double beta_slow = 1.0;
  double mscale = 1.0;
  bool rope_truncate = true;
  bool rope_attention_scaling = false;

  // Router.
  ScoreFunction routed_score_func = ScoreFunction::identity;
  bool routed_bias = false;
  double routed_bias_update_rate = 0.0;
  double routed_scaling_factor = 1.0;
  bool norm_topk_prob = false;
  int64_t n_routing_groups = -1;    ///< -1 = no groups
  int64_t topk_routing_group = -1;  ///< -1 = no groups
  double load_balance_loss_weight = 0.0;
  bool float32_gate_logits = true;
  bool float32_weight_sum = true;

  // Multi-token prediction.
  int64_t mtp_num_layers = 0;
  double mtp_loss_scaling_factor = 0.1;

  // Norms, head, loss.
  double normalization_layer_epsilon = 1e-6;
  bool logits_via_embedding = false;
  bool logits_dot_in_fp32 = false;
  double z_loss_multiplier = 0.0;

  // Types, memory, initial values.
  ComputeType dtype = ComputeType::float32;
  Remat remat_policy = Remat::none;
  Initialiser init = Initialiser::maxtext;
  double init_std = 0.02;  ///< read by init = "normal" only

  int64_t num_moe_layers() const { return base_num_decoder_layers - first_num_dense_layers; }
  int64_t qk_head_dim() const { return qk_nope_head_dim + qk_rope_head_dim; }
};

/// [data]
struct DataSettings {
  std::string dataset_type = "text";  ///< text | synthetic
  std::string dataset_name;           ///< text that set-up fetches, by name ("gcide"); excludes dataset_path
  std::vector<std::string>
      dataset_path;  ///< text files or folders, read in this order; relative to the file that names them
  std::string document_separator = "entry";  ///< where a document ends: entry | blank_line | file (data/documents.hpp)
  std::string tokenizer_type = "bytes";      ///< bytes | sentencepiece
  std::string tokenizer_path;                ///< the SentencePiece model; relative to the file that names it
  bool packing = true;                       ///< several documents a row; false = one a row, padded
  std::string packing_type =
      "first_fit";                    ///< first_fit | concat_then_split (data/packing.hpp); read where packing is true
  int64_t max_segments_per_seq = -1;  ///< documents in one row; -1 = no limit
  double eval_fraction =
      0.01;  ///< share of the documents that training never sees, drawn by data_shuffle_seed; 0 = none
  int64_t global_batch_size = 0;  ///< sequences of one optimizer step over all ranks and micro-batches; 0 = not given
  int64_t per_device_batch_size = 0;  ///< sequences of one micro-batch on one rank; 0 = not given
  int64_t gradient_accumulation_steps = 1;
  int64_t data_shuffle_seed = -1;  ///< -1 = as [run] seed
};

/// [optimizer]
struct OptimizerSettings {
  std::string opt_type = "adamw";  ///< adamw
  double learning_rate = 3e-5;
  std::string lr_schedule_type = "cosine";  ///< cosine | wsd | constant
  double warmup_steps_fraction = 0.1;
  double learning_rate_final_fraction = 0.1;
  double wsd_decay_steps_fraction = 0.1;
  std::string wsd_decay_style = "linear";     ///< linear | cosine
  int64_t learning_rate_schedule_steps = -1;  ///< -1 = as [run] steps
  double adam_b1 = 0.9;
  double adam_b2 = 0.95;
  double adam_eps = 1e-8;
  double adam_eps_root = 0.0;
  double adam_weight_decay = 0.1;
  std::vector<std::string> adamw_mask;  ///< regular expressions; a parameter whose path contains a match is not decayed
  double gradient_clipping_threshold = 1.0;  ///< global norm; 0 = off
};

/// [metrics]
struct MetricsSettings {
  int64_t log_period = 10;     ///< steps between two lines on the console; the files get every step
  int64_t eval_interval = -1;  ///< steps between two evaluations; -1 = at the end only
  bool quantization_stats = false;  ///< what quantization does to every operand, every log_period steps
  int64_t eval_steps = 16;     ///< batches of an evaluation; -1 = the whole held-out part, 0 = never evaluate
};

struct Settings {
  RunSettings run;
  ModelSettings model;
  QuantSettings quant;
  DataSettings data;
  OptimizerSettings optimizer;
  MetricsSettings metrics;
};

/// Takes every key of the sections above. What is wrong is collected in the document and thrown by Document::finish(),
/// which the caller calls when plugins have taken their keys too. The values are not to be used before that.
Settings read_settings(Document& document);

/// What cannot go together in [model] and [quant] (heads, experts, groups …), one sentence each, with both numbers.
/// A file that describes a model alone, as those of configs/models, must pass this. Empty = nothing found.
std::vector<std::string> find_model_conflicts(const Settings& settings);

/// The same for what a run needs beyond its model: steps, data, batch, schedule. `ranks`: processes that share the
/// batch.
std::vector<std::string> find_run_conflicts(const Settings& settings, int ranks = 1);

/// Throw one UsageError that holds all that was found: in the model; in the model and the run. With the document that the
/// settings were read from, each sentence begins with the file, line and column of the setting that it names first.
void check_model(const Settings& settings, const Document* document = nullptr);
void check(const Settings& settings, const Document* document = nullptr, int ranks = 1);

/// Sequences of one optimizer step, from global_batch_size or per_device_batch_size · ranks ·
/// gradient_accumulation_steps.
int64_t sequences_per_step(const DataSettings& data, int ranks = 1);

/// The section that has this key ("base_emb_dim" → "model"), or "" if none has it: for files that hold MaxText's flat
/// names.
std::string section_of(const std::string& key);

}  // namespace kvant::config
