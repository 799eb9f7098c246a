#include "quant/recipe.hpp"

#include <fmt/format.h>

namespace kvant::quant {

std::string_view name_of(Granularity granularity) {
  switch (granularity) {
    case Granularity::per_tensor:
      return "per_tensor";
    case Granularity::per_row:
      return "per_row";
    case Granularity::per_column:
      return "per_column";
    case Granularity::per_expert_column:
      return "per_expert_column";
  }
  return "?";
}

std::string OperandRecipe::identity() const {
  return fmt::format("{} {} {} {:a} {:a} {:a} {}{}{}", qtype, calibration.text, name_of(granularity), law.bound,
                     law.factor, law.limit, law.scale_by_reciprocal, law.true_quotient, law.reference_guard);
}

}  // namespace kvant::quant
