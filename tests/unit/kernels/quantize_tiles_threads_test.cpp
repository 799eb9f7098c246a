// Scales, zero points, codes and noise of tiles do not depend on the number of threads.
#include "support/threads.hpp"
#include "support/tile_case.hpp"

#include <catch2/catch_test_macros.hpp>

using namespace kvant;
using kvant::test::TileRun;

TEST_CASE("quantization by tiles gives the same bits with one thread and with two", "[kernels][quantize]") {
  if constexpr (!test::can_choose_threads) {
    SKIP("The number of threads cannot be chosen on this backend.");
  } else {
    for (const auto& tile : {std::vector<int64_t>{640, 1}, {640, 96}, {1, 32}, {64, 32}, {640, 32}}) {
      for (const bool zero_point : {false, true}) {
        reference::TiledTensor t{{640, 96}, tile, test::tile_values_of(640 * 96, 31, 96)};
        std::vector<int> codes[2], zeros[2];
        std::vector<float> scales[2];
        for (const int threads : {1, 2}) {
          TileRun<Int<8>> run(DType::f32, t, zero_point);
          if (zero_point) run.job.noise = {Rounding::low_bit_uniform, 3, 4, 0, {}};
          run.run(test::exec_with_threads(threads));
          codes[threads - 1] = run.codes.integers();
          scales[threads - 1] = run.scale.floats();
          if (zero_point) zeros[threads - 1] = run.zero.integers();
        }
        CHECK(codes[0] == codes[1]);
        CHECK(scales[0] == scales[1]);
        CHECK(zeros[0] == zeros[1]);
      }
    }
  }
}
