// From MaxText's settings to the rope kernel's.
#pragma once

#include "config/settings.hpp"
#include "kernels/rope.hpp"

namespace kvant::nn {

inline RopeConfig rope_config(const config::ModelSettings& m) {
  RopeConfig r;
  r.dim = static_cast<int>(m.qk_rope_head_dim);
  r.theta = m.rope_max_timescale;
  r.yarn = m.rope_type == config::RopeType::yarn;
  r.factor = m.rope_factor;
  r.original_max_position = static_cast<double>(m.original_max_position_embeddings);
  r.beta_fast = m.beta_fast, r.beta_slow = m.beta_slow;
  r.truncate = m.rope_truncate;
  r.attention_scaling = m.rope_attention_scaling;
  return r;
}

}  // namespace kvant::nn
