// One instance of the codec of each of Kvant's formats; the kernels are compiled in codec_<family>.cpp, each through
// define_codec.hpp.
#pragma once

#include "numerics/formats.hpp"
#include "quant/codec.hpp"

namespace kvant::quant::detail {

template <NumericFormat Format>
const Codec& instance();

#define KVANT_CODEC(...) \
  template <>            \
  const Codec& instance<__VA_ARGS__>();
KVANT_CODEC(Int<2>)
KVANT_CODEC(Int<3>)
KVANT_CODEC(Int<4>)
KVANT_CODEC(Int<5>)
KVANT_CODEC(Int<6>)
KVANT_CODEC(Int<7>)
KVANT_CODEC(Int<8>)
KVANT_CODEC(Int<16>)
KVANT_CODEC(UInt<2>)
KVANT_CODEC(UInt<3>)
KVANT_CODEC(UInt<4>)
KVANT_CODEC(UInt<5>)
KVANT_CODEC(UInt<6>)
KVANT_CODEC(UInt<7>)
KVANT_CODEC(UInt<8>)
KVANT_CODEC(E4M3fn)
KVANT_CODEC(E5M2)
KVANT_CODEC(E4M3)
KVANT_CODEC(E3M4)
KVANT_CODEC(E4M3fnuz)
KVANT_CODEC(E5M2fnuz)
KVANT_CODEC(E4M3b11fnuz)
KVANT_CODEC(E2M1)
KVANT_CODEC(Nf4)
#undef KVANT_CODEC

}  // namespace kvant::quant::detail
