// Codecs of the OCP and IEEE-like fp8 formats.
#include "quant/detail/builtin_codecs.hpp"
#include "quant/format_codec.hpp"

namespace kvant::quant::detail {

#define KVANT_CODEC(...)                         \
  template <>                                    \
  const Codec& instance<__VA_ARGS__>() {         \
    static const FormatCodec<__VA_ARGS__> codec; \
    return codec;                                \
  }
KVANT_CODEC(E4M3fn)
KVANT_CODEC(E5M2)
KVANT_CODEC(E4M3)
KVANT_CODEC(E3M4)
#undef KVANT_CODEC

}  // namespace kvant::quant::detail
