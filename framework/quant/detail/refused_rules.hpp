// Configurations that the reference refuses, recorded beside its products.
#pragma once

#include "quant/detail/recording.hpp"

namespace kvant::quant::detail {

/// The metadata `rejected`, where a file has it: {name: {layout, rule, error}}. Each is resolved as a rule of Kvant's, in the
/// reference's arithmetic, for a site of the shape that the cases of its layout have, and must be refused. What no rule of
/// Kvant's says is not offered.
void verify_refused_rules(Recording& r);

}  // namespace kvant::quant::detail
