#include "base/error.hpp"
#include "plugin/plugin.hpp"
#include "quant/calibrator.hpp"

#include <cmath>

namespace {

class Headroom final : public kvant::quant::Calibrator {
 public:
  std::string description() const override { return "headroom,b: the range 2^b·max|x|, b >= 0: room for b more bits"; }

  kvant::quant::Calibration calibrate(std::span<const float> arguments) const override {
    if (arguments.size() != 1 || !(arguments[0] >= 0 && arguments[0] <= 8))
      kvant::refuse("headroom takes one number from 0 to 8.");
    kvant::quant::Calibration calibration;
    calibration.factor = std::exp2(arguments[0]);
    return calibration;
  }
};

}  // namespace

KVANT_PLUGIN(kvant::plugin::provide<Headroom>("headroom"))
