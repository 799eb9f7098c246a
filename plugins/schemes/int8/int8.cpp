// int8 as the reference has it: the dense products of the layers, weights, activations and gradients in int8, absmax,
// experts plain. The range ends half a step beyond the largest code (127.5), also as in the reference: the largest
// entry of every row then lies on a rounding tie, so two machines agree to a few per cent only. int8_full has the range
// 127.
#include "plugin/plugin.hpp"
#include "quant/scheme.hpp"

namespace {

using namespace kvant::quant;

class Int8 final : public Scheme {
 public:
  std::string description() const override {
    return "the reference's int8: dense products of the layers, range 127.5, experts plain";
  }

  std::vector<Rule> rules(const kvant::config::QuantSettings& settings) const override {
    std::vector<Rule> rules = dense_rules(settings, "int8");
    for (Rule& rule : rules) rule.half_step = !rule.leaves_plain();
    return rules;
  }
};

}  // namespace

KVANT_PLUGIN(kvant::plugin::provide<Int8>("int8"))
