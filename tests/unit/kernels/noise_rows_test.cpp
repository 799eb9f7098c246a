// Numbers of rows that share noise, and the noise that is drawn for them.
#include "kernels/noise_rows.hpp"

#include "base/error.hpp"
#include "base/kokkos.hpp"
#include "kernels/quantize_kernel.hpp"
#include "kernels/quantize_tiles_kernel.hpp"
#include "numerics/formats.hpp"
#include "support/device_buffer.hpp"

#include <catch2/catch_test_macros.hpp>

using namespace kvant;
using kvant::test::DeviceBuffer;

TEST_CASE("rows are numbered by the axes that tell noise apart", "[kernels][quantize]") {
  const DeviceBuffer numbers(DType::i32, {12});
  const auto numbered = [&](bool by_sequence, bool by_position) {
    noise_rows(Exec{}, 4, by_sequence, by_position, numbers);
    Kokkos::fence();
    return numbers.integers();
  };
  CHECK(numbered(true, true) == std::vector<int>{0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11});
  CHECK(numbered(true, false) == std::vector<int>{0, 0, 0, 0, 1, 1, 1, 1, 2, 2, 2, 2});
  CHECK(numbered(false, true) == std::vector<int>{0, 1, 2, 3, 0, 1, 2, 3, 0, 1, 2, 3});
  CHECK(numbered(false, false) == std::vector<int>(12, 0));
  CHECK_THROWS_AS(noise_rows(Exec{}, 5, true, false, numbers), Error);
  CHECK_THROWS_AS(noise_rows(Exec{}, 0, true, false, numbers), Error);
  const DeviceBuffer floats(DType::f32, {12});
  CHECK_THROWS_AS(noise_rows(Exec{}, 4, true, false, floats), Error);
}

TEST_CASE("rows of one number draw one noise, by row and by element, in a matrix and in tiles", "[kernels][quantize]") {
  constexpr int64_t rows = 12, cols = 530, length = 4;  // more columns than a host draws at once
  std::vector<double> x(rows * cols);
  for (std::size_t i = 0; i < x.size(); ++i) x[i] = static_cast<double>(i % 41) / 20 - 1;
  for (std::size_t r = 0; r < rows; ++r) x[r * cols] = 1;  // every row has the same scale
  const DeviceBuffer values(DType::f32, {rows, cols}, x), numbers(DType::i32, {rows}), scale(DType::f32, {rows});
  noise_rows(Exec{}, length, true, false, numbers);
  for (const bool by_row : {true, false}) {
    for (const Rounding rounding : {Rounding::uniform, Rounding::low_bit_uniform}) {
      std::vector<double> drawn(x.size());
      for (std::size_t i = 0; i < drawn.size(); ++i) {
        const std::size_t sequence = i / cols / length;
        drawn[i] = noise_of(rounding, 5, 9, by_row ? sequence : sequence * cols + i % cols);
      }
      const DeviceBuffer given(DType::f32, {rows, cols}, drawn);
      std::vector<int> codes[2];
      for (const bool tiles : {false, true})
        for (const bool recorded : {true, false}) {
          const DeviceBuffer code(DType::i8, {rows, cols});
          NoiseJob noise;
          noise.rounding = rounding;
          noise.seed = 5, noise.stream = 9;
          if (recorded) {
            noise.given = given;
          } else {
            noise.by_row = by_row;
            noise.row_ids = numbers;
          }
          if (tiles) {
            TileJob job;
            job.x = values;
            job.tile = {1, cols, 1, 1};
            job.codes = code;
            job.scale = scale;
            job.law.bound = job.law.limit = 127;
            job.noise = noise;
            quantize_tiles<Int<8>>(Exec{}, job);
          } else {
            QuantizeJob job;
            job.x = values;
            job.codes = code;
            job.scale = scale;
            job.law.bound = job.law.limit = 127;
            job.noise = noise;
            quantize<Int<8>>(Exec{}, job);
          }
          Kokkos::fence();
          codes[recorded] = code.integers();
          if (!recorded) CHECK(codes[0] == codes[1]);
        }
    }
  }
}
