// Room ops: the one seam between a model and the arithmetic that its products run in. A model owns MatmulSites; what is
// bound to a site (plain, or quantized by a plan) is none of its business.
// This header: what every call of a step carries.
#pragma once

#include <cstdint>
#include <functional>
#include <string>

namespace kvant {

struct Exec;
struct MatmulSite;
struct OperandFacts;
struct TensorView;
class Arena;

/// Sees what a layer has just computed: (name, tensor). For `kvant verify` and for naming the first tensor that is not finite;
/// absent in an ordinary step.
using Tap = std::function<void(const std::string&, const TensorView&)>;

/// Sees what became of each operand that an op has quantized: "weight", "act", "grad_input" or "grad_weight" of a site. For metrics by
/// site; absent in an ordinary step, which pays nothing for it.
class OperandWatch {
 public:
  virtual ~OperandWatch() = default;
  virtual void see(const MatmulSite& site, const char* operand, const OperandFacts& facts) = 0;
};

/// train: forward that will be differentiated. eval: forward alone. replay: the forward run again inside backward
/// (activation recompute): it must give the bits of the first pass and records nothing (no counts, no histories).
enum class Phase : uint8_t { train, eval, replay };

struct StepContext {
  const Exec& exec;
  Arena& arena;         ///< saved activations, payloads and workspace of this step (a stack)
  Arena& state;         ///< what outlives the step: packed weights, rounded copies; only grows, and only in the first step
  int64_t step = 0;     ///< optimizer step, from 0
  int64_t micro_batch = 0;
  uint64_t seed = 0;
  Phase phase = Phase::train;
  const Tap* tap = nullptr;
  OperandWatch* watch = nullptr;
  int64_t sequence_length = 0;  ///< tokens of each sequence; the rows of a dense product are sequences, one after the other. 0: not known

  void show(const std::string& name, const TensorView& tensor) const {
    if (tap != nullptr) (*tap)(name, tensor);
  }
};

}  // namespace kvant
