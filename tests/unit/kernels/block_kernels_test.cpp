// Scales by block, padded groups and the Hadamard transform against plain loops.
#include "kernels/block_scales.hpp"
#include "kernels/group_padding.hpp"
#include "kernels/hadamard.hpp"
#include "base/error.hpp"
#include "support/device_buffer.hpp"

#include <catch2/catch_test_macros.hpp>

#include <bit>
#include <cmath>

using namespace kvant;
using kvant::test::DeviceBuffer;

namespace {

std::vector<double> numbers(int64_t n) {
  std::vector<double> x;
  for (int64_t i = 0; i < n; ++i) x.push_back(static_cast<double>(i % 101) - 50);
  return x;
}

}  // namespace

TEST_CASE("scales of tiles by block", "[kernels][tiles]") {
  const Shape matrix{12, 8};
  const TileShape tile{2, 4, 1, 1};  // 6 x 2 tiles
  const DeviceBuffer scale(DType::f32, {12}, numbers(12)), one(DType::f32, {1}, std::vector<double>{7});
  const auto expected = [&](int64_t r, int64_t c) { return static_cast<float>(r / 2 * 2 + c / 4 - 50); };
  const DeviceBuffer along(DType::f32, {4, 12}), down(DType::f32, {3, 16});  // blocks of 2 columns; of 2 rows in groups of 6
  scales_by_block(Exec{}, scale, matrix, tile, 1, 0, along);
  scales_by_block(Exec{}, scale, matrix, tile, 0, 6, down);
  Kokkos::fence();
  const auto a = along.floats(), d = down.floats();
  for (std::size_t b = 0; b < 4; ++b)
    for (std::size_t r = 0; r < 12; ++r) CHECK(a[b * 12 + r] == expected(static_cast<int64_t>(r), static_cast<int64_t>(2 * b)));
  for (std::size_t b = 0; b < 3; ++b)
    for (std::size_t i = 0; i < 16; ++i) CHECK(d[b * 16 + i] == expected(static_cast<int64_t>(i / 8 * 6 + 2 * b), static_cast<int64_t>(i % 8)));
  scales_by_block(Exec{}, one, matrix, {12, 8, 1, 1}, 1, 0, along);
  Kokkos::fence();
  for (const float v : along.floats()) CHECK(v == 7.0f);
  CHECK_THROWS_AS(scales_by_block(Exec{}, scale, matrix, tile, 1, 0, down), Error);
}

TEST_CASE("the outer scale of two levels", "[kernels][tiles]") {
  if constexpr (!exec_is_host) return;
  const DeviceBuffer bits(DType::i32, {1}), out(DType::f32, {1});
  for (const float m : {0.0f, 1e-45f, 3.0f, 3e38f, HUGE_VALF}) {
    *static_cast<int32_t*>(bits.view().data) = std::bit_cast<int32_t>(m);
    outer_scale(Exec{}, bits, 6.0f, out);
    Kokkos::fence();
    const float got = out.floats()[0];
    if (m == 0) CHECK(got == 1.0f);
    else if (std::isinf(m)) CHECK(std::isnan(got));
    else CHECK(got == std::fmax(m / (6.0f * 448.0f), 0x1p-126f));
  }
}

TEST_CASE("groups are padded to multiples with zeros", "[kernels][tiles]") {  // report D13
  const std::vector<int> sizes{1, 15, 16, 17, 0, 31, 32, 33, 44};
  std::vector<int> offsets{0};
  for (const int size : sizes) offsets.push_back(offsets.back() + size);
  const int64_t groups = static_cast<int64_t>(sizes.size()), rows = offsets.back() + 2, cols = 3;
  const DeviceBuffer first(DType::i32, {groups + 1}, offsets);
  for (const int64_t unit : {1, 16, 32, 128}) {
    const int64_t padded = padded_rows(rows, groups, unit);
    const DeviceBuffer place(DType::i32, {groups + 1});
    pad_offsets(Exec{}, first, unit, place);
    for (const DType type : {DType::f32, DType::bf16, DType::i32}) {
      const DeviceBuffer from(type, {rows, cols}, numbers(rows * cols)), to(type == DType::bf16 ? DType::f32 : type, {padded, cols});
      pad_groups(Exec{}, from, first, place, to);
      Kokkos::fence();
      const auto at = place.integers();
      std::vector<double> expected(static_cast<std::size_t>(padded * cols), 0.0);
      for (std::size_t g = 0; g < sizes.size(); ++g) {
        CHECK(at[g] % unit == 0);
        for (int i = 0; i < sizes[g]; ++i)
          for (int64_t c = 0; c < cols; ++c)
            expected[static_cast<std::size_t>((at[g] + i) * cols + c)] = numbers(rows * cols)[static_cast<std::size_t>((offsets[g] + i) * cols + c)];
      }
      CHECK(at.back() <= padded);
      const auto floats = type == DType::i32 ? std::vector<float>{} : to.floats();
      const auto integers = type == DType::i32 ? to.integers() : std::vector<int>{};
      int wrong = 0;
      for (std::size_t i = 0; i < expected.size(); ++i)
        wrong += (type == DType::i32 ? static_cast<double>(integers[i]) : static_cast<double>(floats[i])) != expected[i];
      CHECK(wrong == 0);
    }
  }
}

TEST_CASE("the Hadamard transform is the matrix of signs, and orthogonal", "[kernels][tiles]") {
  const uint32_t signs = hadamard_signs(3, 9);
  CHECK(signs != hadamard_signs(4, 9));
  CHECK(signs <= 0xffffu);
  const int64_t rows = 32, cols = 48;
  for (const DType type : {DType::f32, DType::bf16}) {
    const DeviceBuffer x(type, {rows, cols}, numbers(rows * cols)), y(DType::f32, {rows, cols});
    const auto in = x.floats();
    for (const int axis : {0, 1}) {
      hadamard16(Exec{}, x, axis, signs, y);
      Kokkos::fence();
      const auto got = y.floats();
      int wrong = 0;
      for (int64_t r = 0; r < rows; ++r)
        for (int64_t c = 0; c < cols; ++c) {
          const int64_t place = axis == 0 ? r : c, block = place / 16 * 16;
          double sum = 0;
          for (int64_t i = 0; i < 16; ++i) {
            const int64_t from = axis == 0 ? (block + i) * cols + c : r * cols + block + i;
            const bool minus = (std::popcount(static_cast<unsigned>(i & (place - block))) + static_cast<int>(signs >> i & 1u)) % 2 != 0;
            sum += (minus ? -0.25 : 0.25) * static_cast<double>(in[static_cast<std::size_t>(from)]);
          }
          wrong += static_cast<double>(got[static_cast<std::size_t>(r * cols + c)]) != sum;  // small integers: exact
        }
      CHECK(wrong == 0);
    }
  }
  const DeviceBuffer x(DType::f32, {8, 16}), y(DType::f32, {8, 16});
  CHECK_THROWS_AS(hadamard16(Exec{}, x, 0, signs, y), Error);
}
