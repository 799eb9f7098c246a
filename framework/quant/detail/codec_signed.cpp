// Codecs of the signed integers that products run on; the others are in codec_widths.cpp.
#include "quant/detail/define_codec.hpp"

namespace kvant::quant::detail {

KVANT_DEFINE_CODEC(Int<4>)
KVANT_DEFINE_CODEC(Int<8>)

}  // namespace kvant::quant::detail
