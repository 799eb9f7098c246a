// absmax[,f]: the range is [-m, m] with m = f·max|x| over what shares a scale. A factor below 1 clips, and the gradient
// of a dense product is then zero where it did.
#include "base/error.hpp"
#include "plugin/plugin.hpp"
#include "quant/calibrator.hpp"

namespace {

using namespace kvant::quant;

class AbsMax final : public Calibrator {
 public:
  std::string description() const override { return "absmax[,f]: the range f·max|x|, f > 0 (1 where it is not given)"; }

  Calibration calibrate(std::span<const float> arguments) const override {
    if (arguments.size() > 1) kvant::refuse("It has {} arguments.", arguments.size());
    Calibration calibration;
    if (!arguments.empty()) calibration.factor = arguments[0];
    if (!(calibration.factor > 0)) kvant::refuse("The factor is {}.", calibration.factor);
    return calibration;
  }
};

}  // namespace

KVANT_PLUGIN(kvant::plugin::provide<AbsMax>("absmax"))
