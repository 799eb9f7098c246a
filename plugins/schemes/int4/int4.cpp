// int4 as the reference has it: the dense products of the layers, weights, activations and gradients in int4, absmax,
// range 7.5, experts plain.
#include "plugin/plugin.hpp"
#include "quant/scheme.hpp"

namespace {

using namespace kvant::quant;

class Int4 final : public Scheme {
 public:
  std::string description() const override {
    return "the reference's int4: dense products of the layers, range 7.5, experts plain";
  }

  std::vector<Rule> rules(const kvant::config::QuantSettings& settings) const override {
    std::vector<Rule> rules = dense_rules(settings, "int4");
    for (Rule& rule : rules) rule.half_step = !rule.leaves_plain();
    return rules;
  }
};

}  // namespace

KVANT_PLUGIN(kvant::plugin::provide<Int4>("int4"))
