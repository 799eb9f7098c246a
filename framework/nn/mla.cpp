#include "nn/mla.hpp"

#include "kernels/attention.hpp"
#include "nn/rope_settings.hpp"
#include "ops/plain_matmul.hpp"
#include "tensor/arena.hpp"

#include <cmath>

namespace kvant::nn {
namespace {

double fan_in(int64_t n) { return 1.0 / std::sqrt(static_cast<double>(n)); }

/// Attention products are sites so that a plan can say why they stay plain; their arithmetic is the attention kernel.
void name_product(MatmulSite& site, const Builder& builder, const Place& place, const char* op, int64_t k, int64_t n) {
  site.path = place.scanned();
  site.layer = place.layer;
  site.op = op;
  site.kind = SiteKind::attention;
  site.k = k;
  site.n = n;
  site.compute = DType::f32;
  builder.sites.add(site);
}

}  // namespace

void Mla::build(const Builder& builder, const Place& place) {
  const config::ModelSettings& m = builder.model;
  emb = m.base_emb_dim, heads = m.base_num_query_heads, rq = m.q_lora_rank, rkv = m.kv_lora_rank;
  dn = m.qk_nope_head_dim, dr = m.qk_rope_head_dim, dv = m.v_head_dim;
  dtype = builder.dtype();
  sliced = m.use_sliced_mla_proj;
  double softmax_scale = 1.0 / std::sqrt(static_cast<double>(dn + dr));
  if (m.rope_type == config::RopeType::yarn && m.max_position_embeddings > m.original_max_position_embeddings) {
    const double magnitude = 0.1 * m.mscale * std::log(m.rope_factor) + 1.0;
    softmax_scale *= magnitude * magnitude;
  }
  layout.heads = heads, layout.nope = dn, layout.rope = dr, layout.value = dv;
  layout.q_scale = static_cast<float>(softmax_scale);
  layout.rope_scale = make_rope_table(rope_config(m)).attention_scale;
  layout.interleave = m.rope_interleave;

  if (rq == 0) {
    query.build(builder, place / "query", emb, heads * (dn + dr), {emb, heads, dn + dr}, Init::normal, fan_in(emb));
  } else {
    wq_a.build(builder, place / "wq_a", emb, rq, {emb, rq}, Init::normal, fan_in(emb));
    q_norm.build(builder, place / "q_norm", rq);
    if (sliced)
      q_slices.build(builder, place / "wq_b", rq, heads, dn, dr, Init::normal, fan_in(rq));
    else
      wq_b.build(builder, place / "wq_b", rq, heads * (dn + dr), {rq, heads, dn + dr}, Init::normal, fan_in(rq));
  }
  wkv_a.build(builder, place / "wkv_a", emb, rkv + dr, {emb, rkv + dr}, Init::normal, fan_in(emb));
  kv_norm.build(builder, place / "kv_norm", rkv);
  if (sliced)
    kv_slices.build(builder, place / "wkv_b", rkv, heads, dn, dv, Init::normal, fan_in(rkv));
  else
    wkv_b.build(builder, place / "wkv_b", rkv, heads * (dn + dv), {rkv, heads, dn + dv}, Init::normal, fan_in(rkv));
  // A query sees half of the positions on average: n counts those, so that shares of work are those of the causal product.
  const int64_t seen = (m.max_target_length + 1) / 2;
  name_product(scores, builder, place / "attention_op", "einsum0", heads * (dn + dr), seen);
  name_product(values, builder, place / "attention_op", "einsum1", seen, heads * dv);
  out.build(builder, place / "out", heads * dv, emb, {heads, dv, emb}, Init::normal, fan_in(heads * dv));
}

MlaPack Mla::packing(const Sequence& seq) const {
  MlaPack p = layout;
  p.batch = seq.batch, p.sequence = seq.seq;
  return p;
}

void Mla::prepare_b(StepContext& ctx, const Linear& whole, const SlicedLinear& slices, Operand& x) const {
  sliced ? slices.prepare(ctx, x) : whole.prepare(ctx, x);
}

void Mla::forward_b(StepContext& ctx, const Linear& whole, const SlicedLinear& slices, const Operand& x, const TensorView& y) const {
  sliced ? slices.forward(ctx, x, y) : whole.forward(ctx, x, y);
}

void Mla::backward_b(StepContext& ctx, const Linear& whole, const SlicedLinear& slices, const Operand& x, const TensorView& dy, const TensorView& dx) const {
  sliced ? slices.backward(ctx, x, dy, dx, Write::overwrite) : whole.backward(ctx, x, dy, dx, Write::overwrite);
}

void Mla::forward(StepContext& ctx, const Sequence& seq, Operand& x, const TensorView& h, MlaSaved& saved) const {
  Arena& arena = ctx.arena;
  const int64_t B = seq.batch, S = seq.seq, T = seq.tokens();
  saved.kva = arena.allocate(dtype, {T, rkv + dr});
  saved.kvn = arena.allocate(dtype, {T, rkv});
  saved.kv_rstd = arena.allocate(DType::f32, {T});
  if (rq > 0) {
    saved.qa = arena.allocate(dtype, {T, rq});
    saved.qn = arena.allocate(dtype, {T, rq});
    saved.q_rstd = arena.allocate(DType::f32, {T});
  }
  saved.q = arena.allocate(dtype, {B, heads, S, dn + dr});
  saved.k = arena.allocate(dtype, {B, heads, S, dn + dr});
  saved.v = arena.allocate(dtype, {B, heads, S, dv});
  saved.out = arena.allocate(dtype, {T, heads * dv});
  saved.lse = arena.allocate(DType::f32, {B, heads, S});

  // Payloads that prepare() makes must outlive the raw projections below, so all of it happens before their scope opens.
  wkv_a.prepare(ctx, x);
  wkv_a.forward(ctx, x, saved.kva);
  kv_norm.forward(ctx, saved.kva.slice_cols(0, rkv), saved.kvn, saved.kv_rstd);
  saved.kv_latent = Operand(saved.kvn);
  prepare_b(ctx, wkv_b, kv_slices, saved.kv_latent);
  if (rq > 0) {
    wq_a.prepare(ctx, x);
    wq_a.forward(ctx, x, saved.qa);
    q_norm.forward(ctx, saved.qa, saved.qn, saved.q_rstd);
    saved.q_latent = Operand(saved.qn);
    prepare_b(ctx, wq_b, q_slices, saved.q_latent);
  } else {
    query.prepare(ctx, x);
  }
  {
    const ArenaScope scope(arena);
    const TensorView q_raw = arena.allocate(dtype, {T, heads * (dn + dr)});
    const TensorView kv_raw = arena.allocate(dtype, {T, heads * (dn + dv)});
    if (rq > 0)
      forward_b(ctx, wq_b, q_slices, saved.q_latent, q_raw);
    else
      query.forward(ctx, x, q_raw);
    forward_b(ctx, wkv_b, kv_slices, saved.kv_latent, kv_raw);
    mla_pack_forward(ctx.exec, packing(seq), q_raw, kv_raw, saved.kva.slice_cols(rkv, dr), seq.positions, seq.rope_frequency, saved.q,
                     saved.k, saved.v);
  }
  const AttentionShape shape{B, heads, heads, S, dn + dr, dv};
  attention_forward(ctx.exec, shape, saved.q, saved.k, saved.v, seq.segments, saved.out.reshaped({B, S, heads, dv}), saved.lse, arena);
  saved.heads = Operand(saved.out);
  out.prepare(ctx, saved.heads);
  out.forward(ctx, saved.heads, h, Write::accumulate);
}

void Mla::backward(StepContext& ctx, const Sequence& seq, const Operand& x, const TensorView& dh, const TensorView& dx,
                   const MlaSaved& saved) const {
  Arena& arena = ctx.arena;
  const ArenaScope scope(arena);
  const int64_t B = seq.batch, S = seq.seq, T = seq.tokens();
  const TensorView dout = arena.allocate(dtype, {T, heads * dv});
  const TensorView dq = arena.allocate(dtype, {B, heads, S, dn + dr}), dk = arena.allocate(dtype, {B, heads, S, dn + dr});
  const TensorView dvalue = arena.allocate(dtype, {B, heads, S, dv});
  const TensorView dq_raw = arena.allocate(dtype, {T, heads * (dn + dr)}), dkv_raw = arena.allocate(dtype, {T, heads * (dn + dv)});
  const TensorView dkva = arena.allocate(dtype, {T, rkv + dr}), dkvn = arena.allocate(dtype, {T, rkv});

  out.backward(ctx, saved.heads, dh, dout, Write::overwrite);
  const AttentionShape shape{B, heads, heads, S, dn + dr, dv};
  const Shape by_head{B, S, heads, dv};
  attention_backward(ctx.exec, shape, saved.q, saved.k, saved.v, seq.segments, saved.out.reshaped(by_head), saved.lse, dout.reshaped(by_head),
                     dq, dk, dvalue, arena);
  mla_pack_backward(ctx.exec, packing(seq), dq, dk, dvalue, seq.positions, seq.rope_frequency, dq_raw, dkv_raw, dkva.slice_cols(rkv, dr));
  backward_b(ctx, wkv_b, kv_slices, saved.kv_latent, dkv_raw, dkvn);
  kv_norm.backward(ctx, saved.kva.slice_cols(0, rkv), saved.kv_rstd, dkvn, dkva.slice_cols(0, rkv), Write::overwrite);
  wkv_a.backward(ctx, x, dkva, dx, Write::overwrite);
  if (rq == 0) {
    query.backward(ctx, x, dq_raw, dx, Write::accumulate);
    return;
  }
  const TensorView dqn = arena.allocate(dtype, {T, rq}), dqa = arena.allocate(dtype, {T, rq});
  backward_b(ctx, wq_b, q_slices, saved.q_latent, dq_raw, dqn);
  q_norm.backward(ctx, saved.qa, saved.q_rstd, dqn, dqa, Write::overwrite);
  wq_a.backward(ctx, x, dqa, dx, Write::accumulate);
}

}  // namespace kvant::nn
