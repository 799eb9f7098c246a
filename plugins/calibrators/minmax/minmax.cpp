// minmax[,f]: the range is f·[min(x, 0), max(x, 0)] over what shares a scale, with a zero point. A factor below 1
// clips, and the gradient of a dense product is then zero where it did.
#include "base/error.hpp"
#include "plugin/plugin.hpp"
#include "quant/calibrator.hpp"

namespace {

using namespace kvant::quant;

class MinMax final : public Calibrator {
 public:
  std::string description() const override {
    return "minmax[,f]: the range f·[min(x, 0), max(x, 0)] with a zero point, f > 0 (1 where it is not given); "
           "integers "
           "alone";
  }

  Calibration calibrate(std::span<const float> arguments) const override {
    if (arguments.size() > 1) kvant::refuse("It has {} arguments.", arguments.size());
    Calibration calibration;
    calibration.zero_point = true;
    if (!arguments.empty()) calibration.factor = arguments[0];
    if (!(calibration.factor > 0)) kvant::refuse("The factor is {}.", calibration.factor);
    return calibration;
  }
};

}  // namespace

KVANT_PLUGIN(kvant::plugin::provide<MinMax>("minmax"))
