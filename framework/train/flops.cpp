#include "train/flops.hpp"

namespace kvant::train {

Flops training_flops(const config::ModelSettings& m, double sequences) {
  const auto real = [](int64_t n) { return static_cast<double>(n); };
  const double S = real(m.max_target_length), T = sequences * S, E = real(m.base_emb_dim), H = real(m.base_num_query_heads);
  const double rq = real(m.q_lora_rank), rkv = real(m.kv_lora_rank), dn = real(m.qk_nope_head_dim), dr = real(m.qk_rope_head_dim),
               dv = real(m.v_head_dim);
  const double q = rq > 0 ? 2 * T * (E * rq + rq * H * (dn + dr)) : 2 * T * E * H * (dn + dr);
  const double kv = 2 * T * (E * (rkv + dr) + rkv * H * (dn + dv));
  const double projections = q + kv + 2 * T * E * H * dv;
  const double attention = 2 * T * S * H * (dn + dr + dv) / 2;
  const auto gated = [&](double width) { return 6 * T * E * width; };
  const double gate = 2 * T * E * real(m.num_experts);
  const double moe = gate + gated(real(m.base_moe_mlp_dim)) * real(m.shared_experts + m.num_experts_per_tok);
  const double L = real(m.base_num_decoder_layers), dense = real(m.first_num_dense_layers), mtp = real(m.mtp_num_layers);
  Flops f;
  f.weights = 3 * (gated(real(m.base_mlp_dim)) * dense + moe * (L - dense) + projections * L + 2 * T * E * real(m.vocab_size));
  f.weights += 3 * (moe + projections) * mtp;
  f.attention = 3 * attention * (L + mtp);
  return f;
}

}  // namespace kvant::train
