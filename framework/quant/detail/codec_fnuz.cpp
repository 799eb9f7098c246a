// Codecs of the FNUZ formats.
#include "quant/detail/builtin_codecs.hpp"
#include "quant/format_codec.hpp"

namespace kvant::quant::detail {

#define KVANT_CODEC(...)                         \
  template <>                                    \
  const Codec& instance<__VA_ARGS__>() {         \
    static const FormatCodec<__VA_ARGS__> codec; \
    return codec;                                \
  }
KVANT_CODEC(E4M3fnuz)
KVANT_CODEC(E5M2fnuz)
KVANT_CODEC(E4M3b11fnuz)
#undef KVANT_CODEC

}  // namespace kvant::quant::detail
