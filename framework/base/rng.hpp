// Counter-based random numbers: a pure function of (seed, stream, counter), so that what is drawn does not depend on
// ranks, threads, launch shape or restarts. Philox4x32-10 (Salmon et al., "Parallel random numbers: as easy as 1, 2, 3", SC 2011).
#pragma once

#include <cstdint>
#include <string_view>

#if defined(__CUDACC__) || defined(__HIPCC__)
#define KVANT_FUNCTION __host__ __device__
#else
#define KVANT_FUNCTION
#endif

namespace kvant {

struct Random4 {
  uint32_t word[4];
};

/// Philox4x32 with 10 rounds: key = (seed), counter = (stream, index).
KVANT_FUNCTION inline Random4 philox(uint64_t seed, uint64_t stream, uint64_t index) {
  uint32_t c0 = static_cast<uint32_t>(index), c1 = static_cast<uint32_t>(index >> 32);
  uint32_t c2 = static_cast<uint32_t>(stream), c3 = static_cast<uint32_t>(stream >> 32);
  uint32_t k0 = static_cast<uint32_t>(seed), k1 = static_cast<uint32_t>(seed >> 32);
  for (int round = 0; round < 10; ++round) {
    const uint64_t p0 = uint64_t{0xD2511F53u} * c0;
    const uint64_t p1 = uint64_t{0xCD9E8D57u} * c2;
    c0 = static_cast<uint32_t>(p1 >> 32) ^ c1 ^ k0;
    c1 = static_cast<uint32_t>(p1);
    c2 = static_cast<uint32_t>(p0 >> 32) ^ c3 ^ k1;
    c3 = static_cast<uint32_t>(p0);
    k0 += 0x9E3779B9u;
    k1 += 0xBB67AE85u;
  }
  return {{c0, c1, c2, c3}};
}

/// Uniform in [0, 1) with 24 bits.
KVANT_FUNCTION inline float uniform01(uint32_t word) { return static_cast<float>(word >> 8) * 0x1p-24f; }

/// FNV-1a: the stream number that belongs to a name (a parameter's path, a purpose).
constexpr uint64_t stream_of(std::string_view name) {
  uint64_t h = 0xcbf29ce484222325ull;
  for (const char c : name) {
    h ^= static_cast<unsigned char>(c);
    h *= 0x100000001b3ull;
  }
  return h;
}

}  // namespace kvant
