// Codecs of the FNUZ formats.
#include "quant/detail/define_codec.hpp"

namespace kvant::quant::detail {

KVANT_DEFINE_CODEC(E4M3fnuz)
KVANT_DEFINE_CODEC(E5M2fnuz)
KVANT_DEFINE_CODEC(E4M3b11fnuz)

}  // namespace kvant::quant::detail
