// Codecs of the unsigned integers.
#include "quant/detail/define_codec.hpp"

namespace kvant::quant::detail {

KVANT_DEFINE_CODEC(UInt<2>)
KVANT_DEFINE_CODEC(UInt<3>)
KVANT_DEFINE_CODEC(UInt<4>)
KVANT_DEFINE_CODEC(UInt<5>)
KVANT_DEFINE_CODEC(UInt<6>)
KVANT_DEFINE_CODEC(UInt<7>)
KVANT_DEFINE_CODEC(UInt<8>)

}  // namespace kvant::quant::detail
