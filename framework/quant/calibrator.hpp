// Calibrator (plugin kind): how the range of a tensor is found. A configuration names one with its arguments,
// "absmax,0.9"; the calibrator turns the arguments into a Calibration, which says what is measured and what becomes of
// it.
#pragma once

#include "plugin/registry.hpp"

#include <span>
#include <string>
#include <string_view>

namespace kvant::quant {

/// Range of a tensor. Symmetric: [-m, m] with m = factor · max|x| over what shares a scale, or with a constant m.
struct Calibration {
  bool measured = true;  ///< false: the range is `low`, `high` for the whole tensor, whatever it holds
  float factor = 1;
  float low = 0, high = 0;
  std::string text;  ///< as the configuration wrote it, for tables; filled in by parse_calibration

  /// Values can lie outside of the range, so the gradient of the dense products is masked there.
  bool clips() const { return !measured || factor < 1; }
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
