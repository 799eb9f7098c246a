// nvfp4_train: e2m1 in blocks of 16 with e4m3 scales and one float32 scale for the tensor. Weights in blocks of 16 × 16, so
// that forward and dgrad read the same codes; gradients with noise; both operands of the weight gradient go through a
// Hadamard transform, which spreads outliers over 16 tokens. What is known to suffer stays plain: attention projections,
// the first layer, the last layers, the logits.
#include "plugin/plugin.hpp"
#include "quant/scheme.hpp"

#include <fmt/format.h>

namespace {

using namespace kvant::quant;

class Nvfp4Train final : public Scheme {
 public:
  std::string description() const override {
    return "e2m1 in blocks of 16 with two levels of scales; attention projections, first and last layers and logits plain";
  }

  void configure(kvant::config::Section& section) override {
    first_ = section.take_int({"plain_first_layers", "layers at the bottom that stay plain", "layers"}, first_,
                              kvant::config::at_least(0));
    last_ = section.take_int({"plain_last_layers", "layers at the top that stay plain", "layers"}, last_,
                             kvant::config::at_least(0));
  }

  std::vector<Rule> rules(const kvant::config::QuantSettings& settings) const override {
    refuse_unread_flags(settings, {.mtp = true}, "has a recipe of its own", "fp8_full and mxfp8 read such flags");
    const char* type = "nvfp4_two_level";
    std::vector<Rule> layers = full_rules(settings, {type, type, type, type});
    std::vector<Rule> rules = {plain(settings, ".*/self_attention/.*", "", "nvfp4_train leaves attention projections plain"),
                               plain(settings, "decoder/.*", edge("first", first_), "nvfp4_train leaves the first layers plain"),
                               plain(settings, "decoder/.*", edge("last", last_), "nvfp4_train leaves the last layers plain")};
    if (last_ == 0) rules.pop_back();
    if (first_ == 0) rules.erase(rules.begin() + 1);
    for (Rule& rule : layers) {
      if (rule.leaves_plain()) {
        if (rule.module_path.starts_with("decoder/logits_dense")) {
          rule.reason = "nvfp4_train leaves the logits plain";
          rule.flags.clear();
        }
      } else {
        rule.weight_tile.axes = {{0, {16, 0}}, {1, {16, 0}}};
        rule.bwd_rounding = kvant::Rounding::uniform;
        rule.wgrad_transform = Transform::hadamard16;
        rule.act_residual_qtype = type;  // along the tokens, after the transform
      }
      rules.push_back(rule);
    }
    return rules;
  }

 private:
  static std::string edge(const char* end, int64_t count) { return fmt::format("{}:{}", end, count); }
  static Rule plain(const kvant::config::QuantSettings& settings, const char* path, const std::string& layers, const char* why) {
    Rule rule = plain_rule(settings, path, {}, why);
    rule.layers = layers;
    rule.explains = false;  // it takes away what another rule would quantize
    return rule;
  }

  int64_t first_ = 1, last_ = 2;
};

}  // namespace

KVANT_PLUGIN(kvant::plugin::provide<Nvfp4Train>("nvfp4_train"))
