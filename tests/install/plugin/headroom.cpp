#include "base/error.hpp"
#include "plugin/plugin.hpp"
#include "quant/calibrator.hpp"

#include <cmath>

namespace {

class Headroom final : public kvant::quant::Calibrator {
 public:
  std::string description() const override { return "headroom[,b]: the range 2^b·max|x|, b from 0 to 8 (default 1): room for b bits"; }

  kvant::quant::Calibration calibrate(std::span<const float> arguments) const override {
    const float bits = arguments.empty() ? 1.0f : arguments[0];
    if (arguments.size() > 1 || !(bits >= 0 && bits <= 8)) kvant::refuse("headroom takes one number from 0 to 8.");
    kvant::quant::Calibration calibration;
    calibration.factor = std::exp2(bits);
    return calibration;
  }
};

}  // namespace

KVANT_PLUGIN(kvant::plugin::provide<Headroom>("headroom"))
