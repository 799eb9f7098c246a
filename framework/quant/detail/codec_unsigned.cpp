// Codecs of the unsigned integers.
#include "quant/detail/builtin_codecs.hpp"
#include "quant/format_codec.hpp"

namespace kvant::quant::detail {

#define KVANT_CODEC(...)                         \
  template <>                                    \
  const Codec& instance<__VA_ARGS__>() {         \
    static const FormatCodec<__VA_ARGS__> codec; \
    return codec;                                \
  }
KVANT_CODEC(UInt<2>)
KVANT_CODEC(UInt<3>)
KVANT_CODEC(UInt<4>)
KVANT_CODEC(UInt<5>)
KVANT_CODEC(UInt<6>)
KVANT_CODEC(UInt<7>)
KVANT_CODEC(UInt<8>)
#undef KVANT_CODEC

}  // namespace kvant::quant::detail
