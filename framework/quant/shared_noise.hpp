// Noise that elements of a gradient share, as in the reference: to it a gradient is [sequences, positions, outputs], and noise has
// extent 1 along every axis that channelwise_noise_axes does not name.
#pragma once

#include "kernels/quantize.hpp"
#include "ops/context.hpp"

#include <cstdint>
#include <string>
#include <vector>

namespace kvant::quant {

/// Axes of a gradient that noise may differ along: 0 sequences, 1 positions, 2 outputs (a head and its element are one of them).
inline constexpr int64_t noise_axis_count = 3;

/// Sets how elements of a gradient of `rows` tokens are numbered, so that those that share a draw have one number. Workspace from ctx.arena.
/// Throws kvant::Error where sequences have to be told apart and ctx does not say how long they are.
void share_noise(StepContext& ctx, const std::vector<int64_t>& axes, int64_t rows, NoiseJob& noise);

/// " by sequence", " by sequence and output"; " of one draw" where no axis is named.
std::string words_of_noise(const std::vector<int64_t>& axes);

}  // namespace kvant::quant
