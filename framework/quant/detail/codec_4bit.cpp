// Codecs of the 4-bit formats that are no integers.
#include "quant/detail/builtin_codecs.hpp"
#include "quant/format_codec.hpp"

namespace kvant::quant::detail {

#define KVANT_CODEC(...)                         \
  template <>                                    \
  const Codec& instance<__VA_ARGS__>() {         \
    static const FormatCodec<__VA_ARGS__> codec; \
    return codec;                                \
  }
KVANT_CODEC(E2M1)
KVANT_CODEC(Nf4)
#undef KVANT_CODEC

}  // namespace kvant::quant::detail
