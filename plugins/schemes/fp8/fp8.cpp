// fp8, fp8_e4m3 and fp8_e5m2 as the reference has them: the dense products of the layers in one type, gradients included,
// absmax, experts plain. fp8 is fp8_e4m3.
#include "plugin/plugin.hpp"
#include "quant/scheme.hpp"

namespace {

using namespace kvant::quant;

class E4m3 final : public Scheme {
 public:
  std::string description() const override {
    return "the reference's fp8: dense products of the layers in e4m3, gradients too, experts plain";
  }
  std::vector<Rule> rules(const kvant::config::QuantSettings& settings) const override {
    return dense_rules(settings, "float8_e4m3fn");
  }
};

class E5m2 final : public Scheme {
 public:
  std::string description() const override {
    return "the reference's fp8_e5m2: dense products of the layers in e5m2, gradients too, experts plain";
  }
  std::vector<Rule> rules(const kvant::config::QuantSettings& settings) const override {
    return dense_rules(settings, "float8_e5m2");
  }
};

}  // namespace

KVANT_PLUGIN(kvant::plugin::provide<E4m3>("fp8"), kvant::plugin::provide<E4m3>("fp8_e4m3"),
             kvant::plugin::provide<E5m2>("fp8_e5m2"))
