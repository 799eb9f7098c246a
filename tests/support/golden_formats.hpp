// The formats and laws of recorded qtypes: what a case of tests/reference/data/qwix_*.safetensors is computed with.
#pragma once

#include "kernels/quantize_tiles.hpp"
#include "numerics/formats.hpp"

#include <stdexcept>
#include <string>

namespace kvant::test {

/// Calls f.operator()<Format>() with the format of a recorded qtype.
template <class F>
auto with_format(const std::string& qtype, F&& f) {
  if (qtype == "int2") return f.template operator()<Int<2>>();
  if (qtype == "int3") return f.template operator()<Int<3>>();
  if (qtype == "int4") return f.template operator()<Int<4>>();
  if (qtype == "int5") return f.template operator()<Int<5>>();
  if (qtype == "int6") return f.template operator()<Int<6>>();
  if (qtype == "int7") return f.template operator()<Int<7>>();
  if (qtype == "int8") return f.template operator()<Int<8>>();
  if (qtype == "int16") return f.template operator()<Int<16>>();
  if (qtype == "uint4") return f.template operator()<UInt<4>>();
  if (qtype == "uint8") return f.template operator()<UInt<8>>();
  if (qtype == "float8_e4m3fn" || qtype == "mxfp8" || qtype == "mxfp8_16") return f.template operator()<E4M3fn>();
  if (qtype == "float8_e5m2") return f.template operator()<E5M2>();
  if (qtype == "float8_e4m3") return f.template operator()<E4M3>();
  if (qtype == "float8_e3m4") return f.template operator()<E3M4>();
  if (qtype == "float8_e4m3fnuz") return f.template operator()<E4M3fnuz>();
  if (qtype == "float8_e5m2fnuz") return f.template operator()<E5M2fnuz>();
  if (qtype == "float8_e4m3b11fnuz") return f.template operator()<E4M3b11fnuz>();
  if (qtype == "float4_e2m1fn" || qtype == "mxfp4" || qtype == "nvfp4") return f.template operator()<E2M1>();
  if (qtype == "nf4") return f.template operator()<Nf4>();
  throw std::runtime_error("no format for " + qtype);
}

template <class Format>
constexpr DType code_type() {
  using Code = typename Format::storage;
  if (sizeof(Code) == 2) return std::is_signed_v<Code> ? DType::i16 : DType::u16;
  return std::is_signed_v<Code> ? DType::i8 : DType::u8;
}

/// The reference's arithmetic with IEEE quotients. `round_up`: the block rule of the released 0.1.8.
inline ScaleLaw reference_law(const std::string& qtype, float bound, bool round_up = false) {
  ScaleLaw law;
  law.bound = bound;
  law.true_quotient = law.reference_guard = law.input_arithmetic = true;
  if (qtype.starts_with("mxfp")) {
    law.rule = round_up ? ScaleRule::power_of_two_up : ScaleRule::power_of_two_biased;
    law.rule_factor = qtype == "mxfp4" ? 12.0f / 7.0f : 60.0f / 31.0f;
  } else if (qtype == "nvfp4") {
    law.rule = ScaleRule::e4m3;
  }
  return law;
}

}  // namespace kvant::test
