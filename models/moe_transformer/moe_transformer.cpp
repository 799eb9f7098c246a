#include "models/moe_transformer/moe_transformer.hpp"

#include "base/error.hpp"
#include "kernels/cross_entropy.hpp"
#include "kernels/elementwise.hpp"
#include "kernels/embedding.hpp"
#include "kernels/load_balance.hpp"
#include "kernels/reduce.hpp"
#include "kernels/transfer.hpp"
#include "nn/rope_settings.hpp"
#include "ops/plain_matmul.hpp"
#include "tensor/arena.hpp"

#include <cmath>

namespace kvant {

using nn::Balance;
using nn::Builder;
using nn::Init;
using nn::Place;
using nn::Sequence;

MoeTransformer::MoeTransformer(const config::ModelSettings& settings) : settings_(settings) {
  const Builder builder{settings_, params_, sites_};
  const int64_t E = settings_.base_emb_dim, V = settings_.vocab_size;
  const double fan_in = 1.0 / std::sqrt(static_cast<double>(E));
  dtype_ = builder.dtype();

  builder.name(embedding_, "token_embedder/embedding", {V, E}, Init::normal, 1.0);
  for (int64_t l = 0; l < settings_.base_num_decoder_layers; ++l) {
    const bool dense = l < settings_.first_num_dense_layers;
    const auto number = static_cast<int>(dense ? l : l - settings_.first_num_dense_layers);
    layers_.push_back(std::make_unique<nn::DecoderLayer>());
    layers_.back()->build(builder, {dense ? "decoder/dense_layers" : "decoder/moe_layers", number, ""}, dense);
    if (!dense) moe_layers_.push_back(&layers_.back()->moe);
  }
  decoder_norm_.build(builder, {"decoder/decoder_norm", -1, ""}, E);
  logits_.build(builder, {"decoder/logits_dense", -1, ""}, E, V, {E, V}, Init::truncated_normal, fan_in);
  if (settings_.logits_dot_in_fp32) logits_.site.compute = DType::f32;
  for (int k = 1; k <= settings_.mtp_num_layers; ++k) {
    mtp_.push_back(std::make_unique<MtpModule>());
    mtp_.back()->build(builder, k);
    moe_layers_.push_back(&mtp_.back()->layer.moe);
    auto site = std::make_unique<MatmulSite>();
    site->path = logits_.site.path;
    site->op = "dot_general" + std::to_string(k);
    site->k = E, site->n = V;
    site->compute = logits_.site.compute;
    site->weight = logits_.site.weight;
    site->bound = make_plain_matmul(*site);
    sites_.add(*site);
    mtp_logits_.push_back(std::move(site));
  }
  if (settings_.num_experts == 0) moe_layers_.clear();
}

void MtpModule::build(const Builder& builder, int number) {
  const int64_t E = builder.model.base_emb_dim;
  const std::string prefix = "mtp_" + std::to_string(number) + "_";
  const Place place{"mtp_block/mtp_layer_" + std::to_string(number), -1, ""};
  embedding_norm.build(builder, place / (prefix + "embedding_norm"), E);
  hidden_norm.build(builder, place / (prefix + "hidden_state_norm"), E);
  projection.build(builder, place / (prefix + "projection"), 2 * E, E, {2 * E, E}, Init::truncated_normal,
                   1.0 / std::sqrt(2.0 * static_cast<double>(E)));
  layer.build(builder, place / (prefix + "transformer_layer"), builder.model.num_experts == 0);
  final_norm.build(builder, place / (prefix + "final_norm"), E);
}

void MoeTransformer::allocate(StepContext& ctx) {
  const RopeTable table = make_rope_table(nn::rope_config(settings_));
  rope_frequency_ = ctx.state.allocate(DType::f32, {static_cast<int64_t>(table.frequency.size())});
  upload(ctx.exec, table.frequency.data(), rope_frequency_);
  for (nn::Moe* moe : moe_layers_) {
    moe->counts = ctx.state.allocate(DType::i32, {settings_.num_experts});
    fill(ctx.exec, moe->counts, 0.0f);
    loads_.push_back({moe->gate.site.numbered_path().substr(0, moe->gate.site.numbered_path().rfind("/DeepSeekMoeBlock_0")), moe->counts});
  }
  hidden_.resize(layers_.size() + 1);
  saved_.resize(layers_.size());
  mtp_saved_.resize(mtp_.size());
}

Balance MoeTransformer::balance(float auxiliary, const LossSums& sums) const {
  Balance b;
  b.nonfinite = sums.counts.slice_rows(LossSums::router_nonfinite, 1);
  b.loss = sums.values.slice_rows(LossSums::balance, 1);
  if (!moe_layers_.empty()) b.loss_weight = static_cast<float>(settings_.load_balance_loss_weight / static_cast<double>(moe_layers_.size()));
  b.gradient_weight = b.loss_weight * auxiliary;
  return b;
}

Sequence MoeTransformer::with_rope(const Sequence& seq) const {
  Sequence s = seq;
  s.rope_frequency = rope_frequency_;
  return s;
}

void MoeTransformer::embed(StepContext& ctx, const TensorView& ids, const TensorView& y, const LossSums& sums) const {
  embedding_forward(ctx.exec, ids.reshaped({ids.numel()}), embedding_.value, y, sums.counts.slice_rows(LossSums::bad_ids, 1));
}

void MoeTransformer::forward_layers(StepContext& ctx, const Sequence& seq, const Balance& balance) {
  for (auto& h : hidden_)
    if (&h != &hidden_.front()) h = ctx.arena.allocate(dtype_, {seq.tokens(), settings_.base_emb_dim});
  for (std::size_t l = 0; l < layers_.size(); ++l) {
    const Arena::Mark mark = ctx.arena.mark();
    saved_[l] = {};
    layers_[l]->forward(ctx, seq, balance, hidden_[l], hidden_[l + 1], saved_[l]);
    if (ctx.tap != nullptr) {
      const Place place{l < static_cast<std::size_t>(settings_.first_num_dense_layers) ? "decoder/dense_layers" : "decoder/moe_layers",
                        static_cast<int>(l < static_cast<std::size_t>(settings_.first_num_dense_layers) ? l : l - static_cast<std::size_t>(settings_.first_num_dense_layers)), ""};
      ctx.show("layer_out/" + place.numbered(), hidden_[l + 1]);
    }
    if (ctx.phase == Phase::eval || settings_.remat_policy == config::Remat::full) ctx.arena.release(mark);
  }
}

void MoeTransformer::backward_layers(StepContext& ctx, const Sequence& seq, const Balance& balance, const TensorView& g) {
  for (std::size_t l = layers_.size(); l-- > 0;) {
    const ArenaScope scope(ctx.arena);
    if (settings_.remat_policy == config::Remat::full) {
      StepContext replay = ctx;
      replay.phase = Phase::replay;
      replay.tap = nullptr;
      const TensorView again = ctx.arena.allocate(dtype_, hidden_[l + 1].shape);
      saved_[l] = {};
      layers_[l]->forward(replay, seq, balance, hidden_[l], again, saved_[l]);
    }
    layers_[l]->backward(ctx, seq, balance, hidden_[l], g, saved_[l]);
  }
}

void MoeTransformer::head(StepContext& ctx, const Head& head, const HeadTask& task, const LossSums& sums) const {
  const ArenaScope scope(ctx.arena);
  const int64_t T = task.hidden.rows(), E = settings_.base_emb_dim, V = settings_.vocab_size;
  const TensorView normed = ctx.arena.allocate(dtype_, {T, E}), rstd = ctx.arena.allocate(DType::f32, {T});
  const TensorView logits = ctx.arena.allocate(settings_.logits_dot_in_fp32 ? DType::f32 : dtype_, {T, V});
  head.norm->forward(ctx, task.hidden, normed, rstd);
  Operand x(normed);
  head.site->op_ref().prepare(ctx, x, {});
  head.site->op_ref().forward(ctx, x, {}, logits, Write::overwrite);
  ctx.show(head.name, logits);

  const TensorView loss = ctx.arena.allocate(DType::f32, {T}), z_term = ctx.arena.allocate(DType::f32, {T});
  const TensorView row_max = ctx.arena.allocate(DType::f32, {T}), one = ctx.arena.allocate(DType::f32, {1});
  CrossEntropyConfig config;
  config.z_loss = task.z_loss;
  config.grad_scale = task.grad_scale;
  config.write_gradient = !task.gradient.empty();
  CrossEntropyResult result;
  result.loss = loss, result.z_term = z_term;
  result.row_max = row_max;
  result.bad_targets = sums.counts.slice_rows(LossSums::bad_targets, 1);
  cross_entropy(ctx.exec, logits, task.targets.reshaped({T}), task.mask.reshaped({T}), config, result);
  sum(ctx.exec, loss, one, ctx.arena);
  accumulate(ctx.exec, one, sums.values.slice_rows(task.sum, 1));
  if (task.sum == LossSums::lm) {
    sum(ctx.exec, z_term, one, ctx.arena);
    accumulate(ctx.exec, one, sums.values.slice_rows(LossSums::z, 1));
    maximum(ctx.exec, row_max, sums.values.slice_rows(LossSums::max_logit, 1), ctx.arena);
  }
  if (task.gradient.empty()) return;

  const TensorView dnormed = ctx.arena.allocate(dtype_, {T, E});
  head.site->op_ref().backward(ctx, x, {}, logits, dnormed, Write::overwrite);
  head.norm->backward(ctx, task.hidden, rstd, dnormed, task.gradient, Write::overwrite);
}

void MoeTransformer::mtp_forward(StepContext& ctx, const Sequence& seq, const Balance& balance, const ModelBatch::Ahead& ahead,
                                 const TensorView& previous, const MtpModule& module, MtpSaved& saved, const LossSums& sums) const {
  const int64_t T = seq.tokens(), E = settings_.base_emb_dim;
  saved.embedded = ctx.arena.allocate(dtype_, {T, E});
  saved.embedded_rstd = ctx.arena.allocate(DType::f32, {T});
  saved.hidden_rstd = ctx.arena.allocate(DType::f32, {T});
  saved.joined = ctx.arena.allocate(dtype_, {T, 2 * E});
  saved.u = ctx.arena.allocate(dtype_, {T, E});
  saved.h = ctx.arena.allocate(dtype_, {T, E});
  embed(ctx, ahead.inputs, saved.embedded, sums);
  module.embedding_norm.forward(ctx, saved.embedded, saved.joined.slice_cols(0, E), saved.embedded_rstd);
  module.hidden_norm.forward(ctx, previous, saved.joined.slice_cols(E, E), saved.hidden_rstd);
  saved.joined_operand = Operand(saved.joined);
  module.projection.prepare(ctx, saved.joined_operand);
  module.projection.forward(ctx, saved.joined_operand, saved.u);
  saved.layer = {};
  module.layer.forward(ctx, seq, balance, saved.u, saved.h, saved.layer);
  if (ctx.tap != nullptr) {
    const std::string path = module.projection.site.path;
    ctx.show("layer_out/" + path.substr(0, path.rfind("_projection")) + "_transformer_layer", saved.h);
  }
}

void MoeTransformer::mtp_backward(StepContext& ctx, const Sequence& seq, const Balance& balance, const ModelBatch::Ahead& ahead,
                                  const TensorView& previous, const MtpModule& module, const MtpSaved& saved, const TensorView& g,
                                  const TensorView& g_previous) const {
  const ArenaScope scope(ctx.arena);
  const int64_t T = seq.tokens(), E = settings_.base_emb_dim;
  const TensorView djoined = ctx.arena.allocate(dtype_, {T, 2 * E}), dembedded = ctx.arena.allocate(dtype_, {T, E});
  module.layer.backward(ctx, seq, balance, saved.u, g, saved.layer);
  module.projection.backward(ctx, saved.joined_operand, g, djoined, Write::overwrite);
  module.hidden_norm.backward(ctx, previous, saved.hidden_rstd, djoined.slice_cols(E, E), g_previous, Write::accumulate);
  module.embedding_norm.backward(ctx, saved.embedded, saved.embedded_rstd, djoined.slice_cols(0, E), dembedded, Write::overwrite);
  embedding_backward(ctx.exec, ahead.inputs.reshaped({T}), dembedded, embedding_.gradient);
}

void MoeTransformer::run(StepContext& ctx, const ModelBatch& batch, const LossScales* scales, const LossSums& sums) {
  const bool train = scales != nullptr;
  const Sequence seq = with_rope(batch.sequence);
  const Balance balanced = balance(train ? scales->auxiliary : 0.0f, sums);
  const int64_t T = seq.tokens(), E = settings_.base_emb_dim;
  const ArenaScope scope(ctx.arena);

  // Forward.
  hidden_.front() = ctx.arena.allocate(dtype_, {T, E});
  embed(ctx, batch.inputs, hidden_.front(), sums);
  forward_layers(ctx, seq, balanced);
  const TensorView& last = hidden_.back();
  for (std::size_t k = 0; k < mtp_.size(); ++k)
    mtp_forward(ctx, seq, balanced, batch.ahead[k], k == 0 ? last : mtp_saved_[k - 1].h, *mtp_[k], mtp_saved_[k], sums);

  // Heads: loss and the gradient of what they read, logits never outlive their head.
  std::vector<TensorView> g(1 + mtp_.size());
  if (train)
    for (TensorView& each : g) each = ctx.arena.allocate(dtype_, {T, E});
  HeadTask main{last, batch.targets, batch.mask, g[0], train ? scales->lm : 0.0f, LossSums::lm, static_cast<float>(settings_.z_loss_multiplier)};
  head(ctx, {&decoder_norm_, &logits_.site, "logits"}, main, sums);
  for (std::size_t k = 0; k < mtp_.size(); ++k) {
    const HeadTask task{mtp_saved_[k].h, batch.ahead[k].targets, batch.ahead[k].mask, g[k + 1], train ? scales->ahead[k] : 0.0f,
                        LossSums::ahead + static_cast<int>(k), 0.0f};
    head(ctx, {&mtp_[k]->final_norm, mtp_logits_[k].get(), "mtp_logits/" + std::to_string(k + 1)}, task, sums);
  }
  if (!train) return;

  // Backward, in reverse order.
  for (std::size_t k = mtp_.size(); k-- > 0;)
    mtp_backward(ctx, seq, balanced, batch.ahead[k], k == 0 ? last : mtp_saved_[k - 1].h, *mtp_[k], mtp_saved_[k], g[k + 1], g[k]);
  backward_layers(ctx, seq, balanced, g[0]);
  embedding_backward(ctx.exec, batch.inputs.reshaped({T}), g[0], embedding_.gradient);
}

void MoeTransformer::train(StepContext& ctx, const ModelBatch& batch, const LossScales& scales, const LossSums& sums) {
  run(ctx, batch, &scales, sums);
}

void MoeTransformer::evaluate(StepContext& ctx, const ModelBatch& batch, const LossSums& sums) { run(ctx, batch, nullptr, sums); }

void MoeTransformer::end_step(StepContext& ctx) {
  for (nn::Moe* moe : moe_layers_) {
    if (settings_.routed_bias && settings_.routed_bias_update_rate > 0) {
      router_bias_update(ctx.exec, moe->counts, static_cast<float>(settings_.routed_bias_update_rate), moe->bias.value);
      ++moe->bias.epoch;
    }
    fill(ctx.exec, moe->counts, 0.0f);
  }
}

}  // namespace kvant
