// fp8_full: weights and activations in e4m3, gradients in e5m2 (or e4m3, bwd_quantization_dtype), dense and expert
// products, calibrations from the flags: measured ("absmax") or constant ("fixed,224").
#include "plugin/plugin.hpp"
#include "quant/scheme.hpp"

namespace {

using namespace kvant::quant;

class Fp8Full final : public Scheme {
 public:
  std::string description() const override {
    return "fp8 in dense and expert products: e4m3 forward, e5m2 gradients, static or dynamic";
  }

  std::vector<Rule> rules(const kvant::config::QuantSettings& settings) const override {
    const std::string gradient = settings.bwd_quantization_dtype == "e4m3" ? "float8_e4m3fn" : "float8_e5m2";
    return full_rules(settings, {"float8_e4m3fn", "float8_e4m3fn", gradient, gradient, true});
  }
};

}  // namespace

KVANT_PLUGIN(kvant::plugin::provide<Fp8Full>("fp8_full"))
