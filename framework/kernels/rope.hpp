// Rotary position embedding: the frequencies, plain and YaRN. Source: Su et al. 2021, Peng et al. 2023 (YaRN), with the
// clamps of reference/maxtext-semantics.md 2.2. The rotation itself is part of mla_pack.
#pragma once

#include <vector>

namespace kvant {

struct RopeConfig {
  int dim = 0;                               ///< rotated columns per head (qk_rope_head_dim), even
  double theta = 10000.0;                    ///< rope_max_timescale
  bool yarn = false;                         ///< rope_type = "yarn"
  double factor = 40.0;                      ///< rope_factor
  double original_max_position = 4096.0;     ///< original_max_position_embeddings
  double beta_fast = 32.0, beta_slow = 1.0;  ///< turns within the original context where the ramp ends and begins
  bool truncate = true;                      ///< the ramp's ends are rounded to whole indices
  bool attention_scaling = false;            ///< cos and sin times 0.1 ln(factor) + 1
};

struct RopeTable {
  std::vector<float> frequency;  ///< [dim / 2], radians per position
  float attention_scale = 1.0f;  ///< factor on cos and sin
};

/// Errors: odd or too large dim (see rope_max_dim), theta <= 1, factor < 1, a ramp that is not one.
RopeTable make_rope_table(const RopeConfig& config);

/// Most columns that the kernels rotate per head.
inline constexpr int rope_max_dim = 512;

}  // namespace kvant
