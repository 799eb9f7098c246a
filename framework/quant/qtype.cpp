#include "quant/qtype.hpp"

#include <algorithm>

namespace kvant::quant {
namespace {

constexpr QtypeFacts facts[] = {  // the likeliest first: of two names that are equally near, the first one is suggested
    {.name = "int8", .integer = true, .zero_point = true},
    {.name = "int4", .integer = true, .zero_point = true},
    {.name = "int2", .integer = true, .named_only = true},
    {.name = "int3", .integer = true, .named_only = true},
    {.name = "int5", .integer = true, .named_only = true},
    {.name = "int6", .integer = true, .named_only = true},
    {.name = "int7", .integer = true, .named_only = true},
    {.name = "int16", .integer = true, .zero_point = true},
    {.name = "uint2", .integer = true, .is_unsigned = true},
    {.name = "uint3", .integer = true, .is_unsigned = true, .named_only = true},
    {.name = "uint4", .integer = true, .is_unsigned = true},
    {.name = "uint5", .integer = true, .is_unsigned = true, .named_only = true},
    {.name = "uint6", .integer = true, .is_unsigned = true, .named_only = true},
    {.name = "uint7", .integer = true, .is_unsigned = true, .named_only = true},
    {.name = "uint8", .integer = true, .is_unsigned = true},
    {.name = "float8_e4m3fn"},
    {.name = "float8_e5m2"},
    {.name = "float8_e4m3fnuz"},
    {.name = "float8_e5m2fnuz"},
    {.name = "float8_e4m3"},
    {.name = "float8_e4m3b11fnuz"},
    {.name = "float8_e3m4"},
    {.name = "float4_e2m1fn"},
    {.name = "nf4", .weights_only = true, .named_only = true},
    {.name = "mxfp8", .named_only = true, .block = 32},
    {.name = "mxfp8_16", .named_only = true, .block = 16},
    {.name = "mxfp4", .named_only = true, .block = 32},
    {.name = "nvfp4", .named_only = true, .block = 16},
    {.name = "nvfp4_two_level", .named_only = true, .block = 16, .two_level = true},
};

}  // namespace

const QtypeFacts* find_qtype(std::string_view name) {
  const auto* found = std::find_if(std::begin(facts), std::end(facts), [&](const QtypeFacts& f) { return f.name == name; });
  return found == std::end(facts) ? nullptr : found;
}

std::vector<std::string> qtype_names() {
  std::vector<std::string> names;
  for (const QtypeFacts& f : facts) names.emplace_back(f.name);
  return names;
}

}  // namespace kvant::quant
