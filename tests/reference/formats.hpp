// Number formats as tables of doubles, from the definition of each (sign, exponent, fraction, bias, what the topmost
// codes mean), and the nearest entry by search: the twin of framework/numerics/.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>
#include <vector>

namespace kvant::reference {

struct TableEntry {
  double value;
  int64_t code;
};
/// The finite values in ascending order; where two codes have one value (+0, -0) the positive one stands.
using FormatTable = std::vector<TableEntry>;

enum class Top { infinity_and_nan, one_nan, negative_zero_is_nan, nothing };

inline FormatTable float_table(int exponent_bits, int fraction_bits, int bias, Top top) {
  FormatTable table;
  const int sign = 1 << (exponent_bits + fraction_bits);
  for (int code = 0; code < 2 * sign; ++code) {
    const int field = (code / (1 << fraction_bits)) % (1 << exponent_bits), fraction = code % (1 << fraction_bits);
    const bool topmost = field == (1 << exponent_bits) - 1;
    if (top == Top::infinity_and_nan && topmost) continue;
    if (top == Top::one_nan && topmost && fraction == (1 << fraction_bits) - 1) continue;
    if (code == sign) continue;  // -0, or the NaN of fnuz
    const double size = field == 0 ? fraction * std::pow(2.0, 1 - bias - fraction_bits)
                                   : (1 + fraction / std::pow(2.0, fraction_bits)) * std::pow(2.0, field - bias);
    table.push_back({code >= sign ? -size : size, code});
  }
  std::sort(table.begin(), table.end(), [](const TableEntry& a, const TableEntry& b) { return a.value < b.value; });
  return table;
}

inline FormatTable integer_table(int64_t lowest, int64_t highest) {
  FormatTable table;
  for (int64_t i = lowest; i <= highest; ++i) table.push_back({static_cast<double>(i), i});
  return table;
}

inline FormatTable power_table() {
  FormatTable table;
  for (int code = 0; code < 255; ++code) table.push_back({std::pow(2.0, code - 127), code});
  return table;
}

/// Code of the nearest entry; midway the one whose last bit is 0; beyond the ends the end.
inline int64_t nearest_code(const FormatTable& table, double v) {
  const auto above = std::lower_bound(table.begin(), table.end(), v,
                                      [](const TableEntry& entry, double value) { return entry.value < value; });
  if (above == table.end()) return table.back().code;
  if (above == table.begin() || above->value == v) return above->code;
  const auto below = above - 1;
  const double up = above->value - v, down = v - below->value;
  if (up != down) return up < down ? above->code : below->code;
  return above->code % 2 == 0 ? above->code : below->code;
}

}  // namespace kvant::reference
