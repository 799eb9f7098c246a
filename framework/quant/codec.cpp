#include "quant/codec.hpp"

#include "quant/detail/builtin_codecs.hpp"

namespace kvant::quant {
namespace {

struct Builtin {
  std::string_view qtype;
  const Codec& (*codec)();
};

constexpr Builtin builtins[] = {
    {"int2", &detail::instance<Int<2>>},
    {"int3", &detail::instance<Int<3>>},
    {"int4", &detail::instance<Int<4>>},
    {"int5", &detail::instance<Int<5>>},
    {"int6", &detail::instance<Int<6>>},
    {"int7", &detail::instance<Int<7>>},
    {"int8", &detail::instance<Int<8>>},
    {"int16", &detail::instance<Int<16>>},
    {"uint2", &detail::instance<UInt<2>>},
    {"uint3", &detail::instance<UInt<3>>},
    {"uint4", &detail::instance<UInt<4>>},
    {"uint5", &detail::instance<UInt<5>>},
    {"uint6", &detail::instance<UInt<6>>},
    {"uint7", &detail::instance<UInt<7>>},
    {"uint8", &detail::instance<UInt<8>>},
    {"float8_e4m3fn", &detail::instance<E4M3fn>},
    {"float8_e5m2", &detail::instance<E5M2>},
    {"float8_e4m3", &detail::instance<E4M3>},
    {"float8_e3m4", &detail::instance<E3M4>},
    {"float8_e4m3fnuz", &detail::instance<E4M3fnuz>},
    {"float8_e5m2fnuz", &detail::instance<E5M2fnuz>},
    {"float8_e4m3b11fnuz", &detail::instance<E4M3b11fnuz>},
    {"float4_e2m1fn", &detail::instance<E2M1>},
    {"nf4", &detail::instance<Nf4>},
    {"mxfp8", &detail::instance<E4M3fn>},
    {"mxfp8_16", &detail::instance<E4M3fn>},
    {"mxfp4", &detail::instance<E2M1>},
    {"nvfp4", &detail::instance<E2M1>},
    {"nvfp4_two_level", &detail::instance<E2M1>},
};

}  // namespace

const Codec* builtin_codec(std::string_view qtype) {
  for (const Builtin& b : builtins)
    if (b.qtype == qtype) return &b.codec();
  return nullptr;
}

std::vector<std::string_view> builtin_qtypes() {
  std::vector<std::string_view> names;
  for (const Builtin& b : builtins) names.push_back(b.qtype);
  return names;
}

ScaleLaw with_block_rule(std::string_view qtype, ScaleLaw law, bool reference, bool round_up) {
  if (qtype == "nvfp4" || qtype == "nvfp4_two_level") {
    law.rule = ScaleRule::e4m3;
  } else if (qtype == "mxfp8" || qtype == "mxfp8_16" || qtype == "mxfp4") {
    law.rule = reference && !round_up ? ScaleRule::power_of_two_biased : ScaleRule::power_of_two_up;
    law.rule_factor = qtype == "mxfp4" ? 12.0f / 7.0f : 60.0f / 31.0f;
  }
  return law;
}

}  // namespace kvant::quant
