#include "kernels/isa/float_tile_body.hpp"
#include "kernels/isa/vector_avx512.hpp"

namespace kvant::isa {

void float_tile_avx512(const FloatTile& tile) { float_tile_body<Avx512>(tile); }

}  // namespace kvant::isa
