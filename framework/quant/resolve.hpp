// From a rule to the recipe of one site.
#pragma once

#include "config/settings.hpp"
#include "ops/matmul_site.hpp"
#include "quant/recipe.hpp"
#include "quant/rule.hpp"
#include "quant/scheme.hpp"

namespace kvant::quant {

/// What a rule with types means for a linear or a grouped site. `scheme` (may be null) is asked for codecs that Kvant
/// does not have. compat: "", "xla" or "ieee": the arithmetic of scales and codes. Throws UsageError for a type or
/// calibration that does not exist and for combinations that are not offered, naming the rule.
Recipe resolve_recipe(const Rule& rule, SiteKind kind, const Scheme* scheme, const std::string& compat);

}  // namespace kvant::quant
