// mxfp8 and mxfp4: blocks of 32 elements along the contracted axis share a power of two as their scale; dense and expert
// products, forward and both gradients. mxfp4 rounds its gradients stochastically: sixteen codes leave most of a gradient
// below half a step, and rounding to nearest would lose all of that.
#include "plugin/plugin.hpp"
#include "quant/scheme.hpp"

namespace {

using namespace kvant::quant;

class Mxfp8 final : public Scheme {
 public:
  std::string description() const override {
    return "blocks of 32 with a power of two as scale: e4m3 in dense and expert products, gradients too";
  }
  std::vector<Rule> rules(const kvant::config::QuantSettings& settings) const override {
    return full_rules(settings, {"mxfp8", "mxfp8", "mxfp8", "mxfp8"});
  }
};

class Mxfp4 final : public Scheme {
 public:
  std::string description() const override {
    return "blocks of 32 with a power of two as scale: e2m1 in dense and expert products, gradients too, with noise";
  }
  std::vector<Rule> rules(const kvant::config::QuantSettings& settings) const override {
    std::vector<Rule> rules = full_rules(settings, {"mxfp4", "mxfp4", "mxfp4", "mxfp4"});
    for (Rule& rule : rules)
      if (!rule.leaves_plain()) rule.bwd_rounding = kvant::Rounding::uniform;
    return rules;
  }
};

}  // namespace

KVANT_PLUGIN(kvant::plugin::provide<Mxfp8>("mxfp8"), kvant::plugin::provide<Mxfp4>("mxfp4"))
