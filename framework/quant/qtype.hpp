// Names of number types and what can be done with them, whether or not this version has kernels for them.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace kvant::quant {

struct QtypeFacts {
  std::string_view name;
  bool integer = false;     ///< codes are their own values: products can be integer arithmetic
  bool is_unsigned = false;   ///< no negative codes
  bool zero_point = false;  ///< has an unsymmetric form (int4, int8, int16, as in the reference)
  bool weights_only = false;  ///< a table of values: no arithmetic of its own, and no gradients in it
  bool named_only = false;  ///< the reference knows it by name, not as a type: its backward cannot read such codes
  int64_t block = 0;        ///< elements of the contracted axis that share a scale, by the type's own definition; 0: free
  bool two_level = false;   ///< block scales are themselves scaled by one number for the tensor
};

/// Null: no such type (a scheme may bring others).
const QtypeFacts* find_qtype(std::string_view name);
std::vector<std::string> qtype_names();

}  // namespace kvant::quant
