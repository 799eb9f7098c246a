// Codecs of the 4-bit formats that are no integers.
#include "quant/detail/define_codec.hpp"

namespace kvant::quant::detail {

KVANT_DEFINE_CODEC(E2M1)
KVANT_DEFINE_CODEC(Nf4)

}  // namespace kvant::quant::detail
