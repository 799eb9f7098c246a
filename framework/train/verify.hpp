// Verification: runs what a file of recorded values says and compares every tensor in it.
#pragma once

#include "comm/communicator.hpp"

#include <string>
#include <vector>

namespace kvant {
struct Exec;
}

namespace kvant::train {

/// How one stored tensor came out.
struct Comparison {
  std::string tensor;
  std::string measure;  ///< "mean |difference|", "relative norm", "relative"
  double error = 0, limit = 0;
  bool holds() const { return error <= limit; }  // a NaN holds nothing
};

struct Verification {
  std::string file;
  std::vector<Comparison> comparisons;
  std::vector<std::string> not_compared;  ///< stored tensors that this version has nothing to compare with
  std::vector<std::string> not_offered;   ///< recorded cases without a counterpart here, "case: why"; they do not count
  bool holds() const;
};

/// Reads models and single sites of MaxText's, and what quant/verify.hpp reads. Shapes, scheme and settings come from the
/// file's metadata, the weights from the file that it names, which is looked up beside it. Throws UsageError where the file is
/// not of a layout that this version reads.
Verification verify_file(const std::string& file, const Exec& exec, comm::Communicator& world);

}  // namespace kvant::train
