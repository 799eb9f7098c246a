// Transposing a small f32 matrix on one thread (attention's blocks of queries). No standard library header: see
// isa.hpp.
#pragma once

#include "kernels/isa/isa.hpp"

#include <stdint.h>

namespace kvant {

/// to[col * ld_to + row] = from[row * ld_from + col] for row in [0, rows), col in [0, cols). Any size; no overlap.
using TransposeLeaf = void (*)(int rows, int cols, const float* from, int64_t ld_from, float* to, int64_t ld_to);

/// The leaf of the chosen ISA (host code; on a device backend of no use).
TransposeLeaf transpose_leaf();
TransposeLeaf transpose_leaf(Isa isa);

namespace isa {
void transpose_portable(int rows, int cols, const float* from, int64_t ld_from, float* to, int64_t ld_to);
void transpose_avx2(int rows, int cols, const float* from, int64_t ld_from, float* to, int64_t ld_to);
}  // namespace isa

}  // namespace kvant
