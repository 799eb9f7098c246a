// Noise of stochastic rounding for a run of elements on one thread of a host. No standard library header: see isa.hpp.
#pragma once

#include "kernels/isa/isa.hpp"

#include <stdint.h>

namespace kvant {

/// out[i] = noise_of(rounding, seed, stream, first + i) of numerics/noise.hpp for i in [0, n), the same bits for every ISA.
/// low_bit: Rounding::low_bit_uniform, else Rounding::uniform.
using NoiseLeaf = void (*)(bool low_bit, uint64_t seed, uint64_t stream, uint64_t first, int64_t n, float* out);

/// The leaf of the chosen ISA (host code; on a device backend of no use).
NoiseLeaf noise_leaf();
NoiseLeaf noise_leaf(Isa isa);

namespace isa {
void noise_portable(bool low_bit, uint64_t seed, uint64_t stream, uint64_t first, int64_t n, float* out);
void noise_avx2(bool low_bit, uint64_t seed, uint64_t stream, uint64_t first, int64_t n, float* out);
}  // namespace isa

}  // namespace kvant
