// Codecs of the signed integers that products run on; the others are in codec_widths.cpp.
#include "quant/detail/builtin_codecs.hpp"
#include "quant/format_codec.hpp"

namespace kvant::quant::detail {

#define KVANT_CODEC(...)                         \
  template <>                                    \
  const Codec& instance<__VA_ARGS__>() {         \
    static const FormatCodec<__VA_ARGS__> codec; \
    return codec;                                \
  }
KVANT_CODEC(Int<4>)
KVANT_CODEC(Int<8>)
#undef KVANT_CODEC

}  // namespace kvant::quant::detail
