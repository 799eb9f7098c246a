// From a rule to the recipe of one site.
#pragma once

#include "config/settings.hpp"
#include "ops/matmul_site.hpp"
#include "quant/recipe.hpp"
#include "quant/rule.hpp"
#include "quant/scheme.hpp"

#include <string>
#include <vector>

namespace kvant::quant {

/// What a rule with types means for a linear or a grouped site. `scheme` (may be null) is asked for codecs that Kvant
/// does not have. compat: "", "xla" or "ieee": the arithmetic of scales and codes. Throws UsageError for a type or
/// calibration that does not exist and for combinations that mean nothing, naming the place in the rule.
Recipe resolve_recipe(const Rule& rule, const MatmulSite& site, const Scheme* scheme, const std::string& compat);

/// Every axis of the site that does not divide into its tiles, one sentence each: "decoder/…/wq_a: 72 inputs by 32 (weight
/// mxfp8)". `tokens`: rows of a micro-batch, 0 where they are not known.
std::vector<std::string> indivisible(const Recipe& recipe, const MatmulSite& site, int64_t tokens);

/// The arms of a site whose int32 sums could overflow, one sentence each: integer products over more than max_int8_contraction
/// inputs (forward), outputs (dx) or tokens (dw).
std::vector<std::string> too_long_for_integers(const Recipe& recipe, const MatmulSite& site, int64_t tokens);

}  // namespace kvant::quant
