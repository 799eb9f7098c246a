// Codecs of signed integers of the widths that no product of speed uses.
#include "quant/detail/define_codec.hpp"

namespace kvant::quant::detail {

KVANT_DEFINE_CODEC(Int<2>)
KVANT_DEFINE_CODEC(Int<3>)
KVANT_DEFINE_CODEC(Int<5>)
KVANT_DEFINE_CODEC(Int<6>)
KVANT_DEFINE_CODEC(Int<7>)
KVANT_DEFINE_CODEC(Int<16>)

}  // namespace kvant::quant::detail
