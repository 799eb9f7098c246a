// fp4 as the reference has it: the dense products of the layers in e2m1, gradients included, absmax, experts plain.
#include "plugin/plugin.hpp"
#include "quant/scheme.hpp"

namespace {

using namespace kvant::quant;

class Fp4 final : public Scheme {
 public:
  std::string description() const override {
    return "the reference's fp4: dense products of the layers in e2m1, gradients too, experts plain";
  }

  std::vector<Rule> rules(const kvant::config::QuantSettings& settings) const override {
    return dense_rules(settings, "float4_e2m1fn");
  }
};

}  // namespace

KVANT_PLUGIN(kvant::plugin::provide<Fp4>("fp4"))
