#include "quant/plan.hpp"

#include "base/error.hpp"
#include "base/kokkos.hpp"
#include "base/log.hpp"
#include "plugin/loader.hpp"
#include "quant/quantized_matmul.hpp"
#include "quant/resolve.hpp"
#include "quant/scheme.hpp"

namespace kvant::quant {
namespace {

/// The router is never caught by somebody's catch-all: this rule stands before all others unless the flag asks for it.
Rule router_protection() {
  Rule rule;
  rule.module_path = ".*/gate$";
  rule.op_names = {"dot_general"};
  rule.optional = true;
  rule.origin = "protection of the router";
  rule.reason = "quantize_router_proj is false: the router's product decides which experts run";
  return rule;
}

/// The scheme's rules; whatever a plugin throws becomes a sentence that names it.
std::vector<Rule> scheme_rules(const Scheme& scheme, const config::QuantSettings& settings) {
  try {
    return scheme.rules(settings);
  } catch (const UsageError&) {
    throw;
  } catch (const std::exception& e) {
    refuse("The scheme '{}' of {} failed to give its rules: {}", scheme.name(),
           plugin::Registry<Scheme>::origin(scheme.name()).text(), e.what());
  }
}

std::string title(const Rule& rule) { return fmt::format("{} ({})", rule.module_path, rule.origin); }

/// One rule and what became of it.
struct Entry {
  const Rule* rule;
  RuleMatcher matcher;
  int matched = 0, decided = 0;            ///< sites that it fits; sites that it decided
  int attention = 0, protected_sites = 0;  ///< of those matched
};

/// A rule of the user's that does nothing, or cannot do what it says, is an error.
void refuse_idle(const Entry& entry) {
  const Rule& rule = *entry.rule;
  if (rule.optional) return;
  if (entry.matched == 0)
    refuse("{}: the rule \"{}\" matches no site of this model; `kvant explain` lists the sites.", rule.origin,
           rule.module_path);
  if (rule.leaves_plain()) return;
  if (entry.attention == entry.matched)
    refuse("{}: the rule \"{}\" names products of two activations (attention), which are never quantized; remove it.",
           rule.origin, rule.module_path);
  if (entry.protected_sites == entry.matched)
    refuse("{}: the rule \"{}\" names the router, which stays plain unless quantize_router_proj = true.", rule.origin,
           rule.module_path);
  if (entry.decided == 0)
    refuse("{}: the rule \"{}\" decides nothing: earlier rules take all {} sites that it matches.", rule.origin,
           rule.module_path, entry.matched);
}

}  // namespace

Plan Plan::resolve(const SiteTable& sites, const config::QuantSettings& settings, const std::vector<Rule>& user_rules) {
  Plan plan;
  Scheme* scheme = settings.quantization.empty() ? nullptr : &use_scheme(settings.quantization);
  if (settings.quantization_local_shard_count > 1)
    refuse(
        "[quant] quantization_local_shard_count = {} asks for tiles in the weight gradient, which are not offered; -1 "
        "and 1 mean one tile.",
        settings.quantization_local_shard_count);
  if (!settings.quantize_router_proj) plan.rules_.push_back(router_protection());
  plan.rules_.insert(plan.rules_.end(), user_rules.begin(), user_rules.end());
  if (scheme != nullptr) {
    const std::vector<Rule> rules = scheme_rules(*scheme, settings);
    plan.rules_.insert(plan.rules_.end(), rules.begin(), rules.end());
  }
  std::vector<Entry> entries;
  for (const Rule& rule : plan.rules_) entries.push_back({&rule, RuleMatcher(rule)});

  double flops = 0;
  for (const MatmulSite* site : sites.sites()) flops += site->forward_flops(1);
  RecipeCache recipes;
  for (const MatmulSite* site : sites.sites()) {
    Decision decision;
    decision.site = site;
    decision.flops_share = flops > 0 ? site->forward_flops(1) / flops : 0;
    const bool router =
        !settings.quantize_router_proj && entries.front().matcher.matches(site->path, site->op_name(), site->layer);
    for (std::size_t i = 0; i < entries.size(); ++i) {
      Entry& entry = entries[i];
      if (!entry.matcher.matches(site->path, site->op_name(), site->layer)) continue;
      ++entry.matched;
      entry.attention += site->kind == SiteKind::attention;
      entry.protected_sites += router;
      if (decision.rule_index >= 0) continue;
      decision.rule_index = static_cast<int>(i);
      ++entry.decided;
    }
    plan.decide(decision, scheme, settings, recipes);
    plan.decisions_.push_back(decision);
  }
  for (const Entry& entry : entries) refuse_idle(entry);
  return plan;
}

void Plan::decide(Decision& decision, const Scheme* scheme, const config::QuantSettings& settings,
                  RecipeCache& recipes) {
  const MatmulSite& site = *decision.site;
  const Rule* rule = decision.rule_index < 0 ? nullptr : &rules_[static_cast<std::size_t>(decision.rule_index)];
  if (rule != nullptr) decision.rule = title(*rule);
  if (site.kind == SiteKind::attention) {
    decision.reason = "a product of two activations (attention) is never quantized";
  } else if (rule == nullptr) {
    decision.reason = scheme == nullptr ? "quantization is \"\": no scheme was asked for" : "no rule matches";
  } else if (rule->leaves_plain()) {
    decision.reason = rule->reason.empty() ? "the rule has no types, which means: leave plain" : rule->reason;
  } else {
    if (!settings.qwix_compat.empty() && site.compute != DType::f32)
      refuse(
          "[quant] qwix_compat = \"{}\" is the reference's arithmetic in float32; [model] dtype = \"{}\" is not "
          "offered with it.",
          settings.qwix_compat, name_of(site.compute));
    auto& recipe = recipes[{decision.rule_index, site.kind}];
    if (!recipe)
      recipe = std::make_shared<const Recipe>(resolve_recipe(*rule, site.kind, scheme, settings.qwix_compat));
    decision.recipe = recipe;
  }
}

void Plan::bind(SiteTable& sites) const {
  require(sites.sites().size() == decisions_.size(), "A plan for {} sites cannot be bound to {}.", decisions_.size(),
          sites.sites().size());
  std::map<std::string, uint32_t> keys;  // equal activation recipes share payloads
  for (std::size_t i = 0; i < decisions_.size(); ++i) {
    MatmulSite& site = *sites.sites()[i];
    require(&site == decisions_[i].site, "A plan was bound to the sites of another model.");
    const std::shared_ptr<const Recipe>& recipe = decisions_[i].recipe;
    if (!recipe) continue;
    const auto key = keys.emplace(recipe->act.identity(), static_cast<uint32_t>(keys.size() + 1)).first->second;
    site.bound = make_quantized_matmul(site, recipe, key);
  }
  if (const std::string text = remark(); !text.empty()) log::once(log::Level::info, text);
}

std::string Plan::remark() const {
  const auto integer = [](const OperandRecipe& operand) { return operand.codec->storage() == DType::i8; };
  bool emulated = false;
  for (const Decision& d : decisions_)
    if (const Recipe* r = d.recipe.get())
      emulated |= !(integer(r->weight) && integer(r->act) && integer(r->grad_input) && integer(r->grad_weight));
  if (!emulated || !exec_is_host) return {};
  return "CPUs have no fp8 arithmetic: products of codes other than int8 are emulated (codes are decoded to float32 "
         "and multiplied there), "
         "which gives the numbers of the format but costs a float32 product and the conversions. int8 products are "
         "integer arithmetic.";
}

Plan Plan::bind(SiteTable& sites, const config::Settings& settings) {
  Plan plan = resolve(sites, settings.quant);
  plan.bind(sites);
  return plan;
}

int64_t Plan::quantized_count() const {
  int64_t count = 0;
  for (const Decision& d : decisions_) count += d.recipe != nullptr;
  return count;
}

void configure_plugins(config::Document& document, const config::QuantSettings& settings) {
  if (settings.quantization.empty()) return;
  config::Section section =
      document.section("quant.plugins." + settings.quantization, fmt::format("plugin '{}'", settings.quantization));
  use_scheme(settings.quantization).configure(section);
}

}  // namespace kvant::quant
