// Noise by runs is the noise of its elements, bit for bit, for every ISA of this processor and wherever a run begins and ends.
#include "kernels/isa/noise_leaf.hpp"
#include "numerics/noise.hpp"

#include <catch2/catch_test_macros.hpp>

#include <cstring>
#include <vector>

using namespace kvant;

TEST_CASE("a run of noise is that of its elements", "[kernels][noise]") {
  const uint64_t seeds[] = {0, 11, 0xffffffffffffffffull}, streams[] = {7, 0x123456789abcdef0ull};
  const uint64_t starts[] = {0, 1, 2, 3, 50, (1ull << 34) - 6, (1ull << 60) + 5};  // blocks whose number passes 32 bits among them
  for (const Isa isa : {Isa::portable, Isa::avx2}) {
    if (!cpu_has(isa)) continue;
    const NoiseLeaf leaf = noise_leaf(isa);
    for (const bool low_bit : {false, true})
      for (const uint64_t seed : seeds)
        for (const uint64_t stream : streams)
          for (const uint64_t first : starts)
            for (const int64_t n : {0, 1, 2, 3, 5, 16, 47, 48, 49, 96, 131}) {
              std::vector<float> got(static_cast<std::size_t>(n) + 1, 9.0f);
              leaf(low_bit, seed, stream, first, n, got.data());
              int64_t wrong = 0;
              for (int64_t i = 0; i < n; ++i) {
                const float expected = noise_of(low_bit ? Rounding::low_bit_uniform : Rounding::uniform, seed, stream, first + static_cast<uint64_t>(i));
                wrong += std::memcmp(&expected, &got[static_cast<std::size_t>(i)], sizeof expected) != 0;
              }
              CHECK(wrong == 0);
              CHECK(got.back() == 9.0f);  // nothing is written behind the end
            }
  }
}
