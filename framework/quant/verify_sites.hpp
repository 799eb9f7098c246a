// Single sites of a model of MaxText's: files of format "kvant-golden-maxtext/1" and kind "sites".
//
// Metadata: case ("<model>.<scheme>": the scheme says how the sites are quantized), qwix_compat (the arithmetic of scales
// and codes), params (the file with the kernels). Tensors, all F32: for each site its path in the unscanned spelling,
// decoder/dense_layers_0/mlp/wi_0, and <path>/in, /out, /d_out (the gradient that reaches its output), /d_in (its own
// gradient of the input) and /d_kernel. The kernel is <path>/kernel of `params`: its first axes are the last ones of the
// input, its others the last ones of the output.
#pragma once

#include "quant/verify.hpp"

namespace kvant::quant {

bool records_sites(const data::SafetensorsFile& file);

/// Runs each site through the op that a plan binds to it. Integer products are compared in every bit, others within
/// 5e-7 of Σ|a||b|. Throws UsageError, with the file's name, for a file that is not described like this.
VerifiedFile verify_sites(const data::SafetensorsFile& file, const data::SafetensorsFile& params, const Exec& exec);

}  // namespace kvant::quant
