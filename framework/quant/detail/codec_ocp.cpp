// Codecs of the OCP and IEEE-like fp8 formats.
#include "quant/detail/define_codec.hpp"

namespace kvant::quant::detail {

KVANT_DEFINE_CODEC(E4M3fn)
KVANT_DEFINE_CODEC(E5M2)
KVANT_DEFINE_CODEC(E4M3)
KVANT_DEFINE_CODEC(E3M4)

}  // namespace kvant::quant::detail
