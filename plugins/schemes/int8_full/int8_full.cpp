// int8_full: integer arithmetic in every product that fp8_full covers, experts included; MTP and logits when their
// flags say so. Range ±127, so that the largest entry of a row is a code and no rounding tie.
#include "plugin/plugin.hpp"
#include "quant/scheme.hpp"

namespace {

using namespace kvant::quant;

class Int8Full final : public Scheme {
 public:
  std::string description() const override {
    return "int8 in dense and expert products, forward and both gradients, range 127";
  }

  std::vector<Rule> rules(const kvant::config::QuantSettings& settings) const override {
    return full_rules(settings, {"int8", "int8", "int8", "int8"});
  }
};

}  // namespace

KVANT_PLUGIN(kvant::plugin::provide<Int8Full>("int8_full"))
