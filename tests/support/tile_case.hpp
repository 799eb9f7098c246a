// A quantization by tiles with all its tensors, for tests.
#pragma once

#include "kernels/quantize_tiles_kernel.hpp"
#include "reference/quantize_tiles.hpp"
#include "support/code_type.hpp"
#include "support/device_buffer.hpp"

#include <cmath>
#include <vector>

namespace kvant::test {

/// Numbers between -1 and 1 that differ in size by up to 2^±8 from row to row.
inline std::vector<double> tile_values_of(int64_t count, uint64_t seed, int64_t cols = 7) {
  std::vector<double> x(static_cast<std::size_t>(count));
  for (std::size_t i = 0; i < x.size(); ++i) {
    const Random4 r = philox(seed, 3, i);
    const int exponent = static_cast<int>(i / static_cast<std::size_t>(cols) * 5 % 17) - 8;
    x[i] = static_cast<float>(
        std::ldexp(static_cast<double>(uniform01(r.word[0]) + uniform01(r.word[1])) - 1.0, exponent));
  }
  return x;
}

template <class F>
struct TileRun {
  reference::TiledTensor host;
  DeviceBuffer x, codes, scale, zero, low, high, workspace;
  TileJob job;

  TileRun(DType type, const reference::TiledTensor& given, bool zero_point = false, int64_t scales = 0) : host(given) {
    Shape shape;
    for (std::size_t a = 0; a < host.shape.size(); ++a) {
      shape.dim[a] = host.shape[a];
      job.tile[a] = host.tile[a];
      ++shape.rank;
    }
    if (scales == 0) scales = host.tiles();
    x = DeviceBuffer(type, shape, host.x);
    const auto stored = x.floats();
    host.x.assign(stored.begin(), stored.end());
    codes = DeviceBuffer(code_type<F>(), shape);
    scale = DeviceBuffer(DType::f32, {scales});
    zero = DeviceBuffer(DType::i32, {scales});
    low = DeviceBuffer(DType::f32, {scales});
    high = DeviceBuffer(DType::f32, {scales});
    for (DeviceBuffer* b : {&codes, &scale, &zero, &low, &high}) b->poison();
    job.x = x;
    job.codes = codes;
    job.scale = scale;
    job.low = low;
    job.high = high;
    if (zero_point) {
      job.zero_point = zero;
      job.statistic = Statistic::minmax;
    }
    job.law.bound = F::max_finite;
    if (std::is_signed_v<typename F::storage>) job.law.limit = F::max_finite;
  }

  TileRun& run(const Exec& exec = {}) {
    workspace = DeviceBuffer(DType::i32, {tile_workspace(job)});
    workspace.poison();
    job.workspace = workspace;
    quantize_tiles<F>(exec, job);
    exec.space.fence();
    return *this;
  }

  double decoded(int64_t i, const std::vector<int>& code, const std::vector<float>& scales,
                 const std::vector<int>& zeros) const {
    const auto t = static_cast<std::size_t>(host.tile_of(i));
    const auto v = static_cast<double>(F::decode(static_cast<typename F::storage>(code[static_cast<std::size_t>(i)])));
    return (v - (zeros.empty() ? 0 : zeros[t])) * static_cast<double>(scales[t]);
  }

  /// Scales within one unit in the last place of what double precision gives, codes as near to x/s as the nearest one
  /// (a tie may fall either way: x · (1/s) is rounded).
  int mistakes() const {
    const bool symmetric = job.zero_point.data == nullptr;
    const auto ranges = reference::ranges(host);
    const auto scales = scale.floats();
    const auto zeros = symmetric ? std::vector<int>{} : zero.integers();
    const auto code = codes.integers();
    const double levels = static_cast<double>(F::max_finite) - static_cast<double>(F::lowest);
    int wrong = 0;
    for (std::size_t i = 0; i < ranges.size(); ++i) {
      const double width =
          symmetric ? ranges[i].size() / static_cast<double>(job.law.bound) : (ranges[i].high - ranges[i].low) / levels;
      double expected = width == 0 ? 1.0 : std::fmax(width, 0x1p-126);
      if (job.law.rule == ScaleRule::power_of_two_up && width > 0) expected = reference::power_above(expected);
      wrong += std::fabs(scales[i] - expected) > 1.5e-7 * expected;
      if (!symmetric) {
        const double z = static_cast<double>(F::lowest) - ranges[i].low / static_cast<double>(scales[i]);
        wrong += std::fabs(zeros[i] - z) > 0.5 + 2e-7 * levels;
      }
    }
    for (int64_t i = 0; i < host.count(); ++i) {
      const auto t = static_cast<std::size_t>(host.tile_of(i));
      const double s = scales[t], z = symmetric ? 0 : zeros[t], ratio = host.x[static_cast<std::size_t>(i)] / s + z;
      const double got = decoded(i, code, scales, zeros) / s + z;
      const auto nearest = static_cast<double>(F::decode(F::encode(static_cast<float>(ratio))));
      wrong += std::fabs(got - ratio) - std::fabs(nearest - ratio) >
               4e-7 * std::fabs(ratio) + (symmetric ? 0 : 2e-7 * levels);
    }
    return wrong;
  }
};

}  // namespace kvant::test
