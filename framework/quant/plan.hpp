// Plan: rules × sites. Resolved once, before the first step; says for every site what it will run in and why, and binds
// it.
#pragma once

#include "config/document.hpp"
#include "config/settings.hpp"
#include "ops/matmul_site.hpp"
#include "quant/recipe.hpp"
#include "quant/rule.hpp"

#include <map>
#include <memory>
#include <string>
#include <tuple>
#include <vector>

namespace kvant::quant {

/// One line of the table.
struct Decision {
  const MatmulSite* site = nullptr;
  int rule_index = -1;                   ///< place in Plan::rules(); -1: none matched
  std::string rule;                      ///< its module_path and origin; empty: none matched
  std::shared_ptr<const Recipe> recipe;  ///< null: stays plain
  std::string reason;                    ///< why it stays plain; empty where quantized
  double flops_share = 0;                ///< of all GEMM FLOPs of a forward pass
};

class Scheme;

class Plan {
 public:
  /// Loads the plugins of the scheme and of its calibrations, puts its rules behind the protections (router) and the
  /// user's (those of the settings, then `further`), and decides for every site. An empty `quantization` gives a plan in
  /// which everything stays plain. `tokens`: rows of a micro-batch where they are known, 0 elsewhere. Throws UsageError:
  /// unknown scheme, type, calibration, op; a flag that the scheme ignores; a rule of the user's that matches nothing, that
  /// names a product of two activations, or the router while quantize_router_proj is false; every axis that does not
  /// divide into its tiles, all at once.
  static Plan resolve(const SiteTable& sites, const config::QuantSettings& settings,
                      const std::vector<Rule>& further = {}, int64_t tokens = 0);

  /// Binds quantized products to the sites of the table that was resolved; plain ones keep what they have. Refuses what
  /// the products of this version cannot do as the table says, all of it at once. Says once in the log where arithmetic is
  /// emulated.
  void bind(SiteTable& sites) const;

  /// Both at once: what train/ and app/ call.
  static Plan bind(SiteTable& sites, const config::Settings& settings);

  const std::vector<Decision>& decisions() const { return decisions_; }
  const std::vector<Rule>& rules() const { return rules_; }
  std::string table() const;  ///< for people; ends with the rules, the share of FLOPs by type and the remark
  std::string json() const;   ///< `kvant explain --json`
  /// `kvant explain --log`: one line for each lookup in the order of the forward pass, as the reference logs them:
  /// "module='decoder/moe_layers_0/self_attention/wq_a' op=dot_general0 rule=2". The three products of a block of experts
  /// are one lookup; rule=None where none matched.
  std::string log_lines() const;
  int64_t quantized_count() const;
  /// What a user should know about the arithmetic on this machine (fp8 on a CPU is emulated); empty where there is
  /// nothing to say.
  std::string remark() const;
  /// Settings that decided something, with the number of sites: "quantize_mtp = false (18 sites)".
  std::vector<std::string> flags_that_mattered() const;
  /// The first site whose ranges come from the steps before (delayed scaling, act_static_scale), which weights alone do not
  /// hold; null: none.
  const MatmulSite* remembers_ranges() const;
  /// What bind() would refuse, one sentence each: types without kernels, forms of products that are not offered.
  std::vector<std::string> unsupported() const;

 private:
  using RecipeKey = std::tuple<int, SiteKind, int64_t, int64_t>;  // rule, kind, shape
  using RecipeCache = std::map<RecipeKey, std::shared_ptr<const Recipe>>;
  void decide(Decision& decision, const Scheme* scheme, RecipeCache& recipes);

  config::QuantSettings settings_;
  int64_t tokens_ = 0;  ///< rows of a micro-batch; 0: not known
  std::vector<Rule> rules_;
  std::vector<Decision> decisions_;
};

/// Hands [quant.plugins.<name>] to the scheme that `quantization` names. Before Document::finish().
void configure_plugins(config::Document& document, const config::QuantSettings& settings);

}  // namespace kvant::quant
