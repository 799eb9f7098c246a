// Maxima, scales and codes do not depend on the number of threads.
#include "kernels/quantize_kernel.hpp"
#include "numerics/int.hpp"
#include "support/device_buffer.hpp"
#include "support/threads.hpp"

#include <catch2/catch_test_macros.hpp>

using namespace kvant;
using kvant::test::DeviceBuffer;

TEST_CASE("quantization gives the same bits with one thread and with two", "[kernels][quantize]") {
  if constexpr (!test::can_choose_threads) {
    SKIP("The number of threads cannot be chosen on this backend.");
  } else {
    const int64_t rows = 203, cols = 517;
    std::vector<float> x(static_cast<std::size_t>(rows * cols));
    for (std::size_t i = 0; i < x.size(); ++i) x[i] = uniform01(philox(5, 2, i).word[0]) - 0.5f;
    const DeviceBuffer input(DType::f32, {rows, cols}, x);
    const DeviceBuffer offsets(DType::i32, {4}, std::vector<int>{0, 90, 95, 200});
    std::vector<std::vector<int>> codes[2];
    std::vector<std::vector<float>> scales[2];
    for (const int threads : {1, 2}) {
      const Exec exec = test::exec_with_threads(threads);
      DeviceBuffer by_row(DType::i8, {rows, cols}), by_column(DType::i8, {rows, cols}), row_scale(DType::f32, {rows}),
          column_scale(DType::f32, {3 * cols}), magnitudes(DType::i32, {3 * cols});
      QuantizeJob row;
      row.x = input;
      row.codes = by_row;
      row.scale = row_scale;
      row.law.bound = row.law.limit = 127;
      QuantizeJob column = row;
      column.codes = by_column;
      column.scale = column_scale;
      column.scale_along = Along::column;
      column.magnitudes = magnitudes;
      column.offsets = offsets;
      quantize_pair<Int<8>>(exec, row, column);
      exec.space.fence();
      codes[threads - 1] = {by_row.integers(), by_column.integers()};
      scales[threads - 1] = {row_scale.floats(), column_scale.floats()};
    }
    CHECK(codes[0] == codes[1]);
    CHECK(scales[0] == scales[1]);
  }
}
