#include "kernels/isa/float_tile_body.hpp"
#include "kernels/isa/vector_avx2.hpp"

namespace kvant::isa {

void float_tile_avx2(const FloatTile& tile) { float_tile_body<Avx2>(tile); }

}  // namespace kvant::isa
