// Recorded quantizations of the reference against this build: files of format "kvant-golden/1" and kind "convert"
// (already scaled values → codes, decode tables) or "quantize" (calibrate, quantize, dequantize). Names, tensors and
// tolerances are those that docs/numerics.md describes; a file names its cases, so any file of that layout is read.
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
/// release 0.1.8. Throws UsageError for a case that asks for what is not known.
VerifiedFile verify_quantizers(const data::SafetensorsFile& file, const Exec& exec);

}  // namespace kvant::quant
