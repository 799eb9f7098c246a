// fixed,m or fixed,lo,hi: the range is what is written, one for the whole tensor, whatever it holds.
#include "base/error.hpp"
#include "plugin/plugin.hpp"
#include "quant/calibrator.hpp"

namespace {

using namespace kvant::quant;

class Fixed final : public Calibrator {
 public:
  std::string description() const override {
    return "fixed,m: the range [-m, m], m > 0; fixed,lo,hi: the range [lo, hi], lo <= 0 <= hi, lo < hi "
           "(integers alone where lo is not -hi)";
  }

  Calibration calibrate(std::span<const float> arguments) const override {
    if (arguments.empty() || arguments.size() > 2) kvant::refuse("It has {} arguments.", arguments.size());
    Calibration calibration;
    calibration.measured = false;
    calibration.high = arguments.back();
    calibration.low = arguments.size() == 1 ? -arguments[0] : arguments[0];
    if (arguments.size() == 1 && !(arguments[0] > 0)) kvant::refuse("The range is not positive.");
    if (calibration.low > 0 || calibration.high < 0 || !(calibration.low < calibration.high))
      kvant::refuse("The range must contain 0 and be non-empty.");
    calibration.zero_point = calibration.low != -calibration.high;
    return calibration;
  }
};

}  // namespace

KVANT_PLUGIN(kvant::plugin::provide<Fixed>("fixed"))
