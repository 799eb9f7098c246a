// Recorded quantizations of the reference against this build: files of format "kvant-golden/1" and kind "convert"
// (already scaled values → codes, decode tables) or "quantize" (calibrate, quantize, dequantize).
//
// Layout. The metadata has `cases`, a JSON list of names, and for each `case/<name>`, a JSON object.
//   convert:  qtype, symmetric_bound; tensors <name>/x (f32), /xb (bf16) and their codes /code, /codeb, the codes of NaN and
//             -NaN /nan_code, and, where there is one, the table of all codes /decode.
//   quantize: x (the name of the input, F32 or BF16, up to 4 axes), qtype, calibration, channelwise_axes [axis …],
//             tiled_axes [[axis, "int" | "float", size or share] …], scale_dtype (null = as the input); tensors <name>/scale, /q, /dq,
//             the statistics /stat_absmax or /stat_min and /stat_max, and /zero_point where the calibration has one.
#pragma once

#include "data/safetensors.hpp"
#include "tensor/arena.hpp"

#include <string>
#include <vector>

namespace kvant {
struct Exec;
}

namespace kvant::quant {

/// How one recorded tensor came out.
struct VerifiedTensor {
  std::string tensor;
  std::string measure;  ///< "codes that differ", "values that differ", "relative"
  double error = 0, limit = 0;
};

struct VerifiedFile {
  std::vector<VerifiedTensor> tensors;
  std::vector<std::string> not_compared;  ///< recorded, but nothing was compared with them
};

/// True when the file is of a kind that verify_quantizers reads.
bool records_quantizers(const data::SafetensorsFile& file);

/// Runs every case of the file in the arithmetic that it was made with: IEEE quotients where its `producer` says that
/// the algebraic simplifier was off, else products with rounded reciprocals; block scales rounded up where it was
/// release 0.1.8. Throws UsageError, with the file's name, for a case that is not described like this, asks for what is not known,
/// or whose tensors have other sizes.
VerifiedFile verify_quantizers(const data::SafetensorsFile& file, const Exec& exec);

}  // namespace kvant::quant
