#include "kernels/isa/transpose_leaf.hpp"

namespace kvant {

TransposeLeaf transpose_leaf([[maybe_unused]] Isa isa) {
#if defined(__x86_64__)
  if (isa != Isa::portable)
    return isa::transpose_avx2;  // every other one includes AVX2, and wider registers gain nothing here
#endif
  return isa::transpose_portable;
}

TransposeLeaf transpose_leaf() { return transpose_leaf(chosen_isa()); }

void isa::transpose_portable(int rows, int cols, const float* from, int64_t ld_from, float* to, int64_t ld_to) {
  for (int row = 0; row < rows; ++row)
    for (int col = 0; col < cols; ++col) to[col * ld_to + row] = from[row * ld_from + col];
}

}  // namespace kvant
