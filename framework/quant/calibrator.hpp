// Calibrator (plugin kind): how the range of a tensor is found. A configuration names one with its arguments,
// "absmax,0.9"; the calibrator turns the arguments into a Calibration, which says what is measured and what becomes of
// it.
#pragma once

#include "kernels/quantize.hpp"
#include "plugin/registry.hpp"

#include <memory>
#include <span>
#include <string>
#include <string_view>

namespace kvant {
class Arena;
}

namespace kvant::quant {

class Codec;

/// What a search is given: the values of everything that shares a scale, a row for each.
struct RangeJob {
  TensorView values;   ///< f32 [scales, n], dense: x · multiplier
  TensorView largest;  ///< f32 [scales]: max|v| of each row
  const Codec* codec = nullptr;
  ScaleLaw law;       ///< how a range becomes a scale
  DType type;         ///< f32 or bf16: what the tensor is stored in
  TensorView ranges;  ///< f32 [scales], result: m > 0; the range of the row is [-m, m]
  Arena& arena;       ///< workspace; what is taken is given back
  TensorView counts = {};  ///< i32 [scales]: how many values of each row count, from the first on (0, too); empty: all of them
};

/// A calibration that looks at more than the largest magnitude. Rows that hold a NaN or an infinity, and rows of zeros,
/// need no thought: whoever asks poisons the scale of the first and gives 1 to the second; a range that is not above 0
/// becomes the largest magnitude.
class RangeSearch {
 public:
  virtual ~RangeSearch() = default;
  /// Results must not depend on the number of threads: integers in any order, floats in one order.
  virtual void find(const Exec& exec, const RangeJob& job) const = 0;
  /// True where find() reads `counts`. A search that does not is refused for the gradients of experts, whose rows differ in number.
  virtual bool takes_counts() const { return false; }
};

/// Range of a tensor. Symmetric: [-m, m] with m = factor · max|x| over what shares a scale, or found by a search, or
/// constant. With a zero point: factor · [min(x, 0), max(x, 0)], or [low, high].
struct Calibration {
  bool measured = true;     ///< false: the range is `low`, `high` for the whole tensor, whatever it holds
  bool zero_point = false;  ///< the range is not symmetric
  float factor = 1;
  float low = 0, high = 0;
  std::shared_ptr<const RangeSearch> search;  ///< or null: nothing but maxima is looked at
  std::string text;  ///< as the configuration wrote it, for tables; filled in by parse_calibration

  /// Values can lie outside of the range, so the gradient of the dense products is masked there.
  bool clips() const { return !measured || factor < 1 || search != nullptr; }
};

class Calibrator {
 public:
  using PluginInterface = Calibrator;
  static constexpr plugin::Kind plugin_kind = plugin::Kind::calibrator;
  virtual ~Calibrator() = default;

  /// One line: the grammar and what it does. "absmax[,f]: f·max|x|, f > 0, default 1".
  virtual std::string description() const = 0;
  /// Throws UsageError for arguments that it does not take (parse_calibration adds the text and the grammar).
  virtual Calibration calibrate(std::span<const float> arguments) const = 0;
};

/// "name[,number]…": finds the calibrator (loading its plugin if need be) and asks it. Letters of the name in either
/// case. Throws UsageError for a text that is no such list, an unknown name (with the nearest one) or refused
/// arguments.
Calibration parse_calibration(std::string_view text);

}  // namespace kvant::quant
