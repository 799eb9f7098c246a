// The reader of [quant] and [[quant.rules]].
#pragma once

#include "config/document.hpp"
#include "config/quant_settings.hpp"

namespace kvant::config::detail {

QuantSettings read_quant(Document& document);
std::vector<RuleSettings> read_rules(Document& document);

/// Names of the reference's settings that have no meaning here, each with the reason and what to do instead.
void hint_at_foreign_names(Document& document);

}  // namespace kvant::config::detail
