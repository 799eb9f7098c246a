// What the user wrote about single sites, as rules: unquantized_modules, [[quant.rules]], the short form.
#pragma once

#include "config/quant_settings.hpp"
#include "quant/rule.hpp"
#include "quant/scheme.hpp"

#include <vector>

namespace kvant::quant {

/// Exclusions first, then the rules in order. Throws one UsageError with every problem and its place: unknown types (a
/// scheme may bring others; it may be null), op names and calibrations with the nearest valid one, fields that would be
/// ignored.
std::vector<Rule> user_rules(const config::QuantSettings& settings, const Scheme* scheme);

/// One [[quant.rules]] table, without the checks.
Rule rule_of(const config::RuleSettings& settings);

}  // namespace kvant::quant
