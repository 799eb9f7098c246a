#include "kernels/isa/transpose_leaf.hpp"

#include <catch2/catch_test_macros.hpp>
#include <catch2/generators/catch_generators.hpp>

#include <vector>

using namespace kvant;

TEST_CASE("a transposed block holds every element and touches nothing around it") {
  const Isa isa = GENERATE(Isa::portable, Isa::avx2, Isa::avx512);
  if (!cpu_has(isa)) return;
  const int rows = GENERATE(0, 1, 7, 8, 13, 64), cols = GENERATE(0, 1, 8, 11, 24);
  CAPTURE(name_of(isa), rows, cols);
  const int ld_from = cols + 3, ld_to = rows + 5;
  std::vector<float> from(static_cast<std::size_t>(rows * ld_from)),
      to(static_cast<std::size_t>((cols + 2) * ld_to), -1.0f);
  for (std::size_t i = 0; i < from.size(); ++i) from[i] = static_cast<float>(i);
  transpose_leaf(isa)(rows, cols, from.data(), ld_from, to.data(), ld_to);
  bool same = true;
  for (int col = 0; col < cols + 2; ++col)
    for (int row = 0; row < ld_to; ++row) {
      const bool inside = row < rows && col < cols;
      same = same && to[static_cast<std::size_t>(col * ld_to + row)] ==
                         (inside ? static_cast<float>(row * ld_from + col) : -1.0f);
    }
  CHECK(same);
}
