// Recorded numbers of the reference libraries against this build. A file is of format "kvant-golden/1"; the metadata
// `producer` says what made it, `cases` is a JSON list of names, and `case/<name>` a JSON object that describes a case.
// verify_quantizers.hpp and verify_matmul.hpp have the layout of each kind. Tensors of inputs that cases share are
// input/…, and a case's JSON names them. verify_rules.hpp: tables of rules, which are JSON; verify_sites.hpp: single
// sites of MaxText.
#pragma once

#include "data/safetensors.hpp"

#include <string>
#include <vector>

namespace kvant {
struct Exec;
}

namespace kvant::quant {

/// How one recorded tensor came out.
struct VerifiedTensor {
  std::string tensor;
  std::string measure;  ///< "codes that differ", "values that differ", "relative", "of sum |a||b|"
  double error = 0, limit = 0;
};

/// What is recorded and has no counterpart here.
struct NotOffered {
  std::string name;
  std::string reason;
};

struct VerifiedFile {
  std::vector<VerifiedTensor> tensors;
  std::vector<std::string> not_compared;  ///< recorded, but nothing was compared with them
  std::vector<NotOffered> not_offered;    ///< cases that do not count against the file
};

/// True when the file is of a format and kind that verify_recorded reads.
bool is_recorded(const data::SafetensorsFile& file);
/// The kinds, as a sentence lists them: "convert", "quantize" …
std::string recorded_kinds();

/// Runs every case of the file in the arithmetic that it was made with: IEEE quotients where its `producer` says that
/// the algebraic simplifier was off, else products with rounded reciprocals; block scales rounded up where it was
/// release 0.1.8. Throws UsageError, with the file's name, for a case that is not described as its kind is, asks for what
/// is not known, or whose tensors have other sizes.
VerifiedFile verify_recorded(const data::SafetensorsFile& file, const Exec& exec);

}  // namespace kvant::quant
