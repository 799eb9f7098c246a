#include "nn/moe.hpp"

#include "kernels/elementwise.hpp"
#include "kernels/load_balance.hpp"
#include "kernels/permute.hpp"
#include "kernels/swiglu.hpp"
#include "ops/plain_matmul.hpp"
#include "tensor/arena.hpp"

#include <cmath>

namespace kvant::nn {
namespace {

RouterConfig router_config(const config::ModelSettings& m) {
  RouterConfig r;
  r.experts = static_cast<int>(m.num_experts);
  r.k = static_cast<int>(m.num_experts_per_tok);
  switch (m.routed_score_func) {
    case config::ScoreFunction::identity: r.score = ScoreFunction::identity; break;
    case config::ScoreFunction::softmax: r.score = ScoreFunction::softmax; break;
    case config::ScoreFunction::sigmoid: r.score = ScoreFunction::sigmoid; break;
    case config::ScoreFunction::sqrtsoftplus: r.score = ScoreFunction::sqrtsoftplus; break;
  }
  r.bias_in_selection = m.routed_bias;
  r.groups = m.n_routing_groups > 0 ? static_cast<int>(m.n_routing_groups) : 0;
  r.topk_groups = m.n_routing_groups > 0 ? static_cast<int>(m.topk_routing_group) : 0;
  r.norm_topk = m.norm_topk_prob;
  r.scaling = static_cast<float>(m.routed_scaling_factor);
  r.deepseek = m.decoder_block == config::DecoderBlock::deepseek;
  return r;
}

}  // namespace

void Moe::build_expert(const Builder& builder, const Place& place, const char* name, Param& param, MatmulSite& site, int64_t in,
                       int64_t out) const {
  // The reference computes the fan of an expert weight over the expert axis and the first matrix axis (its in_axis is 0,
  // its out_axis 1), so experts start smaller than 1/sqrt(in). MaxText's published numbers need it.
  const double std = 1.0 / std::sqrt(static_cast<double>(experts * out));
  builder.name(param, place.numbered() + "/" + name, {experts, in, out}, Init::truncated_normal, std);
  site.path = place.scanned();
  site.layer = place.layer;
  site.op = "gmm";
  site.kind = SiteKind::grouped;
  site.k = in, site.n = out, site.groups = experts;
  site.rows_per_token = static_cast<double>(k);
  site.compute = dtype;
  site.weight = {&param.value, &param.gradient, &param.epoch};
  site.bound = make_plain_matmul(site);
  builder.sites.add(site);
}

void Moe::build(const Builder& builder, const Place& place) {
  const config::ModelSettings& m = builder.model;
  emb = m.base_emb_dim, experts = m.num_experts, k = m.num_experts_per_tok, width = m.base_moe_mlp_dim, shared_experts = m.shared_experts;
  dtype = builder.dtype();
  float32_gate = m.float32_gate_logits;
  router = router_config(m);
  check(router);

  const Place block = place / "MoeBlock_0";
  gate.build(builder, block / "gate", emb, experts, {emb, experts}, Init::truncated_normal, 1.0 / std::sqrt(static_cast<double>(emb)));
  if (float32_gate) gate.site.compute = DType::f32;
  if (m.routed_bias) {
    bias.trained = false;
    builder.name(bias, block.numbered() + "/gate/bias", {experts}, Init::zeros);
  }
  build_expert(builder, block, "wi_0", wi_0, wi_0_site, emb, width);
  build_expert(builder, block, "wi_1", wi_1, wi_1_site, emb, width);
  build_expert(builder, block, "wo", wo, wo_site, width, emb);
  if (shared_experts > 0) shared.build(builder, place / "shared_experts", shared_experts * width);
}

void Moe::route(StepContext& ctx, const Sequence& seq, const Balance& balance, Operand& x, MoeSaved& saved) const {
  Arena& arena = ctx.arena;
  const int64_t T = seq.tokens();
  saved.score = arena.allocate(DType::f32, {T, experts});
  saved.index = arena.allocate(DType::i32, {T, k});
  saved.weight = arena.allocate(DType::f32, {T, k});
  saved.offsets = arena.allocate(DType::i32, {experts + 1});
  saved.row_of_slot = arena.allocate(DType::i32, {T * k});
  saved.slot_of_row = arena.allocate(DType::i32, {T * k});
  if (balance.loss_weight > 0) saved.density = arena.allocate(DType::f32, {seq.batch, experts});
  gate.prepare(ctx, x);
  {
    const ArenaScope scope(arena);
    const TensorView logits = arena.allocate(DType::f32, {T, experts});
    if (float32_gate || dtype == DType::f32) {
      gate.forward(ctx, x, logits);
    } else {
      const TensorView rounded = arena.allocate(dtype, {T, experts});
      gate.forward(ctx, x, rounded);
      copy(ctx.exec, rounded, logits);
    }
    router_forward(ctx.exec, logits, bias.value, router, saved.score, saved.index, saved.weight, balance.nonfinite);
  }
  route_plan(ctx.exec, saved.index, experts, saved.offsets, saved.row_of_slot, saved.slot_of_row, arena);
  if (ctx.phase == Phase::train && !counts.empty()) expert_counts(ctx.exec, saved.offsets, counts, Write::accumulate);
  // A replay must not add its loss a second time; the density is needed by backward all the same.
  if (balance.loss_weight > 0) {
    const ArenaScope scope(arena);
    const bool first = ctx.phase != Phase::replay;
    const TensorView loss = first ? balance.loss : arena.allocate(DType::f32, {1});
    load_balance_forward(ctx.exec, saved.score, saved.index, seq.batch, balance.loss_weight, saved.density, loss,
                         first ? Write::accumulate : Write::overwrite, arena);
    if (ctx.tap != nullptr) {
      const TensorView term = arena.allocate(DType::f32, {1});
      load_balance_forward(ctx.exec, saved.score, saved.index, seq.batch, balance.loss_weight, saved.density, term, Write::overwrite, arena);
      ctx.show("lb/" + gate.site.numbered_path(), term);
    }
  }
}

void Moe::forward(StepContext& ctx, const Sequence& seq, const Balance& balance, Operand& x, const TensorView& h, MoeSaved& saved) const {
  Arena& arena = ctx.arena;
  const int64_t R = seq.tokens() * k;
  route(ctx, seq, balance, x, saved);
  if (ctx.tap != nullptr) ctx.show("score/" + gate.site.numbered_path(), saved.score);
  const Groups groups{saved.offsets, saved.slot_of_row};
  saved.sorted = arena.allocate(dtype, {R, emb});
  saved.gate = arena.allocate(dtype, {R, width});
  saved.up = arena.allocate(dtype, {R, width});
  saved.hidden = arena.allocate(dtype, {R, width});
  saved.expert_out = arena.allocate(dtype, {R, emb});
  permute_forward(ctx.exec, x.tensor, saved.slot_of_row, k, saved.sorted);
  saved.sorted_operand = Operand(saved.sorted);
  wi_0_site.op_ref().prepare(ctx, saved.sorted_operand, groups);
  wi_1_site.op_ref().prepare(ctx, saved.sorted_operand, groups);
  wi_0_site.op_ref().forward(ctx, saved.sorted_operand, groups, saved.gate, Write::overwrite);
  wi_1_site.op_ref().forward(ctx, saved.sorted_operand, groups, saved.up, Write::overwrite);
  swiglu_forward(ctx.exec, saved.gate, saved.up, saved.hidden);
  saved.hidden_operand = Operand(saved.hidden);
  wo_site.op_ref().prepare(ctx, saved.hidden_operand, groups);
  wo_site.op_ref().forward(ctx, saved.hidden_operand, groups, saved.expert_out, Write::overwrite);
  if (ctx.tap != nullptr) ctx.show("out/" + wo_site.numbered_path(), saved.expert_out);
  combine_forward(ctx.exec, saved.expert_out, saved.row_of_slot, saved.weight, h, h);
  if (shared_experts > 0) shared.forward(ctx, x, h, saved.shared);
}

void Moe::backward(StepContext& ctx, const Sequence& seq, const Balance& balance, const Operand& x, const TensorView& dh, const TensorView& dx,
                   const MoeSaved& saved) const {
  Arena& arena = ctx.arena;
  const ArenaScope scope(arena);
  const int64_t T = seq.tokens(), R = T * k;
  const Groups groups{saved.offsets, saved.slot_of_row};
  // Each line undoes one of forward, from the last to the first.
  bool first = true;
  if (shared_experts > 0) {
    shared.backward(ctx, x, dh, dx, Write::overwrite, saved.shared);
    first = false;
  }
  const TensorView dexpert_out = arena.allocate(dtype, {R, emb}), dweight = arena.allocate(DType::f32, {T, k});
  combine_backward(ctx.exec, dh, saved.expert_out, saved.row_of_slot, saved.weight, dexpert_out, dweight);
  const TensorView dhidden = arena.allocate(dtype, {R, width}), dgate = arena.allocate(dtype, {R, width}), dup = arena.allocate(dtype, {R, width});
  wo_site.op_ref().backward(ctx, saved.hidden_operand, groups, dexpert_out, dhidden, Write::overwrite);
  swiglu_backward(ctx.exec, saved.gate, saved.up, dhidden, dgate, dup);
  const TensorView dsorted = arena.allocate(dtype, {R, emb});
  wi_1_site.op_ref().backward(ctx, saved.sorted_operand, groups, dup, dsorted, Write::overwrite);
  wi_0_site.op_ref().backward(ctx, saved.sorted_operand, groups, dgate, dsorted, Write::accumulate);
  permute_backward(ctx.exec, dsorted, saved.row_of_slot, k, dx, first ? Write::overwrite : Write::accumulate);

  const TensorView dlogits = arena.allocate(DType::f32, {T, experts});
  router_backward(ctx.exec, saved.score, saved.index, dweight, router, dlogits, Write::overwrite);
  if (balance.gradient_weight > 0) load_balance_backward(ctx.exec, saved.score, saved.density, balance.gradient_weight, router.score, dlogits);
  if (float32_gate || dtype == DType::f32) {
    gate.backward(ctx, x, dlogits, dx, Write::accumulate);
  } else {
    const TensorView rounded = arena.allocate(dtype, {T, experts});
    copy(ctx.exec, dlogits, rounded);
    gate.backward(ctx, x, rounded, dx, Write::accumulate);
  }
}

}  // namespace kvant::nn
