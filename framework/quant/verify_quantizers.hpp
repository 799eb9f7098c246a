// Recorded quantizations: files of format "kvant-golden/1" and kind "convert" (already scaled values → codes, decode
// tables) or "quantize" (calibrate, quantize, dequantize). verify.hpp says what all files have.
//
//   convert:  qtype, symmetric_bound; tensors <name>/x (f32), /xb (bf16) and their codes /code, /codeb, the codes of NaN and
//             -NaN /nan_code, and, where there is one, the table of all codes /decode.
//   quantize: x (the name of the input, F32 or BF16, up to 4 axes), qtype, calibration, channelwise_axes [axis …],
//             tiled_axes [[axis, "int" | "float", size or share] …], scale_dtype (null = as the input); tensors <name>/scale, /q, /dq,
//             the statistics /stat_absmax or /stat_min and /stat_max, and /zero_point where the calibration has one.
#pragma once

#include "quant/verify.hpp"

namespace kvant::quant {

VerifiedFile verify_quantizers(const data::SafetensorsFile& file, const Exec& exec);

}  // namespace kvant::quant
