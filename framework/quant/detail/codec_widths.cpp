// Codecs of signed integers of the widths that no product of speed uses.
#include "quant/detail/builtin_codecs.hpp"
#include "quant/format_codec.hpp"

namespace kvant::quant::detail {

#define KVANT_CODEC(...)                         \
  template <>                                    \
  const Codec& instance<__VA_ARGS__>() {         \
    static const FormatCodec<__VA_ARGS__> codec; \
    return codec;                                \
  }
KVANT_CODEC(Int<2>)
KVANT_CODEC(Int<3>)
KVANT_CODEC(Int<5>)
KVANT_CODEC(Int<6>)
KVANT_CODEC(Int<7>)
KVANT_CODEC(Int<16>)
#undef KVANT_CODEC

}  // namespace kvant::quant::detail
