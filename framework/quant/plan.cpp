#include "quant/plan.hpp"

#include "base/error.hpp"
#include "base/kokkos.hpp"
#include "base/log.hpp"
#include "config/suggest.hpp"
#include "plugin/guard.hpp"
#include "plugin/loader.hpp"
#include "quant/quantized_matmul.hpp"
#include "quant/range_state.hpp"
#include "quant/resolve.hpp"
#include "quant/scheme.hpp"
#include "quant/user_rules.hpp"

#include <algorithm>

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
  rule.flags = {"quantize_router_proj = false"};
  return rule;
}

/// The scheme's rules; whatever a plugin throws becomes a sentence that names it.
std::vector<Rule> scheme_rules(const Scheme& scheme, const config::QuantSettings& settings) {
  const plugin::Origin& origin = plugin::Registry<Scheme>::origin(scheme.name());
  return plugin::call(origin, fmt::format("giving the rules of the scheme '{}'", scheme.name()),
                      [&] { return scheme.rules(settings); });
}

/// In the order in which they are tried.
std::vector<Rule> all_rules(const config::QuantSettings& settings, const Scheme* scheme, const std::vector<Rule>& further) {
  std::vector<Rule> rules;
  if (!settings.anything()) return rules;
  const auto append = [&](const std::vector<Rule>& more) { rules.insert(rules.end(), more.begin(), more.end()); };
  if (!settings.quantize_router_proj) rules.push_back(router_protection());
  append(user_rules(settings, scheme));
  append(further);
  if (scheme != nullptr)
    append(scheme_rules(*scheme, settings));
  else if (!settings.scheme().empty())
    append(legacy_rules(settings));
  return rules;
}

Accumulation accumulation_of(const std::string& name) {
  return name == "fp16x128" ? Accumulation::fp16x128 : name == "fixed" ? Accumulation::fixed : Accumulation::f32;
}

std::string title(const Rule& rule) { return fmt::format("{} ({})", rule.module_path, rule.origin); }

/// One rule and what became of it.
struct Entry {
  const Rule* rule;
  RuleMatcher matcher;
  int matched = 0, decided = 0;            ///< sites that it fits; sites that it decided
  int attention = 0, protected_sites = 0;  ///< of those matched
  int largest = -1;                        ///< number of a layer of what its path names
};

/// The element of a path, or the elements in a row, that come nearest to a name that matched nothing.
std::string nearest_module(const std::string& name, const SiteTable& sites) {
  std::vector<std::string> names;
  for (const MatmulSite* site : sites.sites()) {
    names.push_back(site->path);
    for (std::size_t begin = 0; begin <= site->path.size();) {
      const auto slash = std::min(site->path.find('/', begin), site->path.size());
      names.push_back(site->path.substr(begin, slash - begin));
      begin = slash + 1;
    }
  }
  const std::string nearest = config::nearest(name, names);
  return nearest.empty() ? "" : fmt::format(" (\"{}\"?)", nearest);
}

/// A rule of the user's that does nothing, or cannot do what it says, is an error.
void refuse_idle(const Entry& entry, const SiteTable& sites, int layers) {
  const Rule& rule = *entry.rule;
  if (rule.optional) return;
  if (entry.matched == 0 && !rule.names.empty())
    refuse("{}: \"{}\" names no module of this model{}; `kvant explain` lists the sites.", rule.origin, rule.names,
           nearest_module(rule.names, sites));
  if (entry.matched == 0)
    refuse("{}: the rule \"{}\" matches no site of this model; `kvant explain` lists the sites.", rule.origin,
           rule.module_path);
  if (const std::string missing = entry.matcher.missing_layers(entry.largest, layers); !missing.empty())
    refuse("{}: layers = \"{}\" names {}.", rule.place("layers"), rule.layers, missing);
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

/// Layers of the decoder, in the order of the forward pass: the first two elements of their paths, and the number.
class Decoder {
 public:
  explicit Decoder(const SiteTable& sites) {
    for (const MatmulSite* site : sites.sites())
      if (in_layer(*site)) depth_.emplace(name(*site), static_cast<int>(depth_.size()));
  }
  int count() const { return static_cast<int>(depth_.size()); }
  LayerPlace place(const MatmulSite& site) const {
    LayerPlace place{site.layer, -1, static_cast<int>(depth_.size())};
    if (in_layer(site)) place.depth = depth_.at(name(site));
    return place;
  }

 private:
  static bool in_layer(const MatmulSite& site) { return site.layer >= 0 && site.path.starts_with("decoder/"); }
  static std::string name(const MatmulSite& site) {
    const std::string path = site.numbered_path();
    return path.substr(0, path.find('/', path.find('/') + 1));
  }
  std::map<std::string, int> depth_;
};

void throw_all(const std::string& title, const std::vector<std::string>& sentences) {
  if (sentences.empty()) return;
  std::string text = title;
  for (const std::string& sentence : sentences) text += "\n  " + sentence;
  throw UsageError(text);
}

}  // namespace

namespace {

bool sums_fp8(const Decision& d) { return d.recipe && sums_codes(*d.recipe, d.site->kind == SiteKind::grouped); }

/// The scheme that is asked for, or null; that there is none is told with the place of the key.
Scheme* scheme_of(const config::QuantSettings& settings) {
  const std::string name = settings.scheme();
  if (name.empty() || !settings.use_qwix_quantization) return nullptr;
  try {
    return &use_scheme(name);
  } catch (const UsageError& error) {
    refuse("{}: {}", settings.place("quantization"), error.what());
  }
}

}  // namespace

Plan Plan::resolve(const SiteTable& sites, const config::QuantSettings& settings, const std::vector<Rule>& further,
                   int64_t tokens) {
  Plan plan;
  plan.settings_ = settings;
  plan.tokens_ = tokens;
  Scheme* scheme = scheme_of(settings);
  plan.rules_ = all_rules(settings, scheme, further);
  std::vector<Entry> entries;
  for (const Rule& rule : plan.rules_) entries.push_back({&rule, RuleMatcher(rule)});

  double flops = 0;
  for (const MatmulSite* site : sites.sites()) flops += site->forward_flops(1);
  const Decoder decoder(sites);
  const bool protects = settings.anything() && !settings.quantize_router_proj;
  RecipeCache recipes;
  std::vector<std::string> misfits;
  for (const MatmulSite* site : sites.sites()) {
    const LayerPlace place = decoder.place(*site);
    const auto fits = [&](const Entry& entry) { return entry.matcher.matches(site->path, site->op_name(), place); };
    Decision decision;
    decision.site = site;
    decision.flops_share = flops > 0 ? site->forward_flops(1) / flops : 0;
    const bool router = protects && fits(entries.front());
    for (std::size_t i = 0; i < entries.size(); ++i) {
      Entry& entry = entries[i];
      if (entry.matcher.names(site->path, site->op_name())) entry.largest = std::max(entry.largest, site->layer);
      if (!fits(entry)) continue;
      ++entry.matched;
      entry.attention += site->kind == SiteKind::attention;
      entry.protected_sites += router;
      if (decision.rule_index >= 0) continue;
      decision.rule_index = static_cast<int>(i);
      ++entry.decided;
    }
    plan.decide(decision, scheme, recipes);
    if (decision.recipe)
      for (std::string& misfit : indivisible(*decision.recipe, *site, tokens))
        misfits.push_back(fmt::format("{} [{}]", misfit, plan.rules_[static_cast<std::size_t>(decision.rule_index)].origin));
    plan.decisions_.push_back(decision);
  }
  for (const Entry& entry : entries) refuse_idle(entry, sites, decoder.count());
  if (settings.fp8_accumulation != "f32" && std::ranges::none_of(plan.decisions_, sums_fp8))
    refuse("{} = \"{}\" has nothing to act on: no product of this plan multiplies fp8 codes.", settings.place("fp8_accumulation"),
           settings.fp8_accumulation);
  throw_all(fmt::format("{} axes do not divide into the tiles that share a scale:", misfits.size()), misfits);
  return plan;
}

void Plan::decide(Decision& decision, const Scheme* scheme, RecipeCache& recipes) {
  const MatmulSite& site = *decision.site;
  const Rule* rule = decision.rule_index < 0 ? nullptr : &rules_[static_cast<std::size_t>(decision.rule_index)];
  if (rule != nullptr) decision.rule = title(*rule);
  if (site.kind == SiteKind::attention) {
    decision.reason = "a product of two activations (attention) is never quantized";
  } else if (rule == nullptr) {
    decision.reason = settings_.anything() ? "no rule matches" : "quantization is \"\": no scheme was asked for";
  } else if (rule->leaves_plain()) {
    decision.reason = rule->reason.empty() ? "the rule has no types, which means: leave plain" : rule->reason;
  } else {
    if (!settings_.qwix_compat.empty() && site.compute != DType::f32)
      refuse(
          "{} = \"{}\" is the reference's arithmetic in float32; [model] dtype = \"{}\" is not "
          "offered with it.",
          settings_.place("qwix_compat"), settings_.qwix_compat, name_of(site.compute));
    auto& recipe = recipes[{decision.rule_index, site.kind, site.k, site.n}];
    if (!recipe) {
      Recipe resolved = resolve_recipe(*rule, site, scheme, settings_.qwix_compat);
      resolved.accumulation = accumulation_of(settings_.fp8_accumulation);
      recipe = std::make_shared<const Recipe>(std::move(resolved));
    }
    decision.recipe = recipe;
  }
}

std::vector<std::string> Plan::unsupported() const {
  std::vector<std::string> found;
  const auto add = [&](std::string sentence) {
    if (std::ranges::find(found, sentence) == found.end()) found.push_back(std::move(sentence));
  };
  for (const Decision& d : decisions_) {
    if (!d.recipe) continue;
    const Rule& rule = rules_[static_cast<std::size_t>(d.rule_index)];
    for (const std::string& type : types_without_codec(*d.recipe))
      add(fmt::format("{}: the rule \"{}\" needs {}, for which this version has no kernels.", rule.origin, rule.module_path, type));
    for (const std::string& sentence : too_long_for_integers(*d.recipe, *d.site, tokens_)) add(sentence + ".");
    for (const std::string& what : not_offered(*d.recipe, d.site->kind == SiteKind::grouped))
      add(fmt::format("{}: the rule \"{}\" asks for what cannot be computed: {}.", rule.origin, rule.module_path, what));
  }
  return found;
}

void Plan::bind(SiteTable& sites) const {
  throw_all("This plan can be explained but not run:", unsupported());
  if (!settings_.scheme().empty() && quantized_count() == 0)
    refuse("{} = \"{}\" quantizes no product of this model; `kvant explain` says why for each. quantization = \"\" trains it plain.",
           settings_.place("quantization"), settings_.quantization);
  require(sites.sites().size() == decisions_.size(), "A plan for {} sites cannot be bound to {}.", decisions_.size(),
          sites.sites().size());
  std::map<std::string, uint32_t> keys;  // equal activation recipes share payloads
  for (std::size_t i = 0; i < decisions_.size(); ++i) {
    MatmulSite& site = *sites.sites()[i];
    require(&site == decisions_[i].site, "A plan was bound to the sites of another model.");
    const std::shared_ptr<const Recipe>& recipe = decisions_[i].recipe;
    if (!recipe) continue;
    // A history of ranges and the signs of a transform are of one site alone; all else is a function of the tensor.
    const std::string owner = has_state(recipe->act) || recipe->forward != Transform::none ? " " + site.numbered_path() + " " + site.op : "";
    const auto key = keys.emplace(recipe->act.identity() + owner, static_cast<uint32_t>(keys.size() + 1)).first->second;
    site.bound = make_quantized_matmul(site, recipe, key);
  }
  if (const std::string text = remark(); !text.empty()) log::once(log::Level::info, text);
}

namespace {
bool on_integers(Product p) { return p == Product::integers || p == Product::integer_blocks; }
}  // namespace

std::string Plan::remark() const {
  bool emulated = false;
  for (const Decision& d : decisions_)
    if (const Recipe* r = d.recipe.get())
      for (const Arm arm : {Arm::forward, Arm::dgrad, Arm::wgrad})
        emulated |= r->left(arm).quantized() && r->right(arm).quantized() && !on_integers(product_of(*r, arm, d.site->kind == SiteKind::grouped));
  if (!emulated || !exec_is_host) return {};
  return "CPUs have no fp8 arithmetic: products of codes other than int8 are emulated (codes are decoded to float32 "
         "and multiplied there), "
         "which gives the numbers of the format but costs a float32 product and the conversions. int8 products are "
         "integer arithmetic.";
}

Plan Plan::bind(SiteTable& sites, const config::Settings& settings) {
  const int64_t sequences = config::sequences_per_step(settings.data) / settings.data.gradient_accumulation_steps;
  Plan plan = resolve(sites, settings.quant, {}, sequences * settings.model.max_target_length);
  plan.bind(sites);
  return plan;
}

const MatmulSite* Plan::remembers_ranges() const {
  for (const Decision& d : decisions_)
    if (d.recipe && (has_state(d.recipe->act) || has_state(d.recipe->weight))) return d.site;
  return nullptr;
}

int64_t Plan::quantized_count() const {
  int64_t count = 0;
  for (const Decision& d : decisions_) count += d.recipe != nullptr;
  return count;
}

void configure_plugins(config::Document& document, const config::QuantSettings& settings) {
  Scheme* found = scheme_of(settings);
  if (found == nullptr) return;
  const std::string name = settings.scheme();
  Scheme& scheme = *found;
  config::Section section = document.section("quant.plugins." + name, fmt::format("plugin '{}'", name));
  const plugin::Origin& origin = plugin::Registry<Scheme>::origin(name);
  plugin::call(origin, fmt::format("taking the settings of the scheme '{}'", name), [&] { scheme.configure(section); });
  log::info("Scheme '{}': {}", name, plugin::guard(origin, "describing itself", [&] { return scheme.description(); }));
}

}  // namespace kvant::quant
