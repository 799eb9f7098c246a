// fp8_gpu and fp8_nanoo: the dense products of the layers in fp8 with one scale for each tensor, which comes from a history
// of the tensor's maxima in earlier steps. fp8_gpu has the OCP types, fp8_nanoo the FNUZ types, whose codes differ.
#include "plugin/plugin.hpp"
#include "quant/scheme.hpp"

namespace {

using namespace kvant::quant;

class Gpu final : public Scheme {
 public:
  std::string description() const override {
    return "delayed scaling: dense products of the layers in e4m3fn, gradients in e5m2, experts plain";
  }
  std::vector<Rule> rules(const kvant::config::QuantSettings& settings) const override {
    return delayed_rules(settings, "float8_e4m3fn", "float8_e5m2");
  }
};

class Nanoo final : public Scheme {
 public:
  std::string description() const override {
    return "delayed scaling: dense products of the layers in e4m3fnuz, gradients in e5m2fnuz, experts plain";
  }
  std::vector<Rule> rules(const kvant::config::QuantSettings& settings) const override {
    return delayed_rules(settings, "float8_e4m3fnuz", "float8_e5m2fnuz");
  }
};

}  // namespace

KVANT_PLUGIN(kvant::plugin::provide<Gpu>("fp8_gpu"), kvant::plugin::provide<Nanoo>("fp8_nanoo"))
