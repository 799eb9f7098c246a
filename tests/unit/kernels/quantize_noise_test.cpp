// Stochastic rounding of matrices: by rows, by columns of groups, both at once; the same noise for the same element
// whatever shares its scale.
#include "kernels/quantize_kernel.hpp"
#include "kernels/quantize_tiles_kernel.hpp"
#include "numerics/formats.hpp"
#include "support/device_buffer.hpp"
#include "support/threads.hpp"

#include <catch2/catch_template_test_macros.hpp>
#include <catch2/catch_test_macros.hpp>

#include <algorithm>
#include <cmath>

using namespace kvant;
using kvant::test::DeviceBuffer;

namespace {

constexpr int64_t rows = 48, cols = 70;

NoiseJob noise(uint64_t step = 2) {
  return {Rounding::uniform, 11, noise_stream(stream_of("wi dgrad"), step, 0), 0, {}};
}

std::vector<double> matrix() {
  std::vector<double> x(rows * cols);
  for (std::size_t i = 0; i < x.size(); ++i)
    x[i] = static_cast<float>(uniform01(philox(3, 3, i).word[0]) - 0.5f) * (1.0f + static_cast<float>(i % 7));
  return x;
}

template <class F>
struct Noisy {
  DeviceBuffer x, codes, scale, magnitudes;
  QuantizeJob job;
  Noisy(const std::vector<double>& values, Along along, int64_t scales)
      : x(DType::f32, {rows, cols}, values),
        codes(DType::u8, {rows, cols}),
        scale(DType::f32, {scales}),
        magnitudes(DType::i32, {scales}) {
    job.x = x;
    job.codes = codes;
    job.scale = scale;
    job.magnitudes = magnitudes;
    job.scale_along = along;
    job.law.bound = job.law.limit = F::max_finite;
    job.noise = noise();
  }
};

}  // namespace

TEMPLATE_TEST_CASE("every stored gradient has the noise of its element", "[kernels][quantize]", Int<8>, E4M3fn, E5M2) {
  using F = TestType;
  const auto values = matrix();
  for (const Along along : {Along::row, Along::column, Along::tensor}) {
    const int64_t scales = along == Along::row ? rows : along == Along::column ? cols : 1;
    Noisy<F> run(values, along, scales);
    quantize<F>(Exec{}, run.job);
    Kokkos::fence();
    const auto code = run.codes.integers();
    const auto scale = run.scale.floats();
    int down = 0, up = 0;
    for (int64_t i = 0; i < rows * cols; ++i) {
      const auto at = static_cast<std::size_t>(i);
      const float s = scale[static_cast<std::size_t>(along == Along::row      ? i / cols
                                                     : along == Along::column ? i % cols
                                                                              : 0)];
      const float ratio = static_cast<float>(values[at]) * (1.0f / s);
      const float e = noise_of(Rounding::uniform, 11, noise().stream, static_cast<uint64_t>(i));
      const auto expected = F::encode_noisy(std::fmin(std::fmax(ratio, -F::max_finite), F::max_finite), e);
      REQUIRE(static_cast<uint8_t>(code[at]) == static_cast<uint8_t>(expected));
      const float rounded = F::decode(static_cast<typename F::storage>(code[at]));
      down += rounded < ratio;
      up += rounded > ratio;
    }
    CHECK(std::abs(up - down) < 4 * std::sqrt(static_cast<double>(rows * cols)));
  }
}

TEST_CASE("both gradients of a pair, groups and numbered rows", "[kernels][quantize]") {
  const auto values = matrix();
  Noisy<Int<8>> alone_rows(values, Along::row, rows), alone_columns(values, Along::column, 3 * cols),
      rows_of_pair(values, Along::row, rows), columns_of_pair(values, Along::column, 3 * cols);
  const DeviceBuffer offsets(DType::i32, {4}, std::vector<int>{0, 10, 10, 40});
  std::vector<int> ids(rows);
  for (std::size_t r = 0; r < ids.size(); ++r) ids[r] = static_cast<int>((r * 7) % rows);
  const DeviceBuffer numbers(DType::i32, {rows}, ids);
  for (Noisy<Int<8>>* run : {&alone_rows, &alone_columns, &rows_of_pair, &columns_of_pair})
    run->job.noise.row_ids = numbers;
  alone_columns.job.offsets = columns_of_pair.job.offsets = offsets;
  columns_of_pair.job.x = rows_of_pair.job.x;
  columns_of_pair.job.noise.stream = alone_columns.job.noise.stream = noise_stream(stream_of("wi wgrad"), 2, 0);
  const Exec exec = test::can_choose_threads ? test::exec_with_threads(2) : Exec{};
  quantize<Int<8>>(exec, alone_rows.job);
  quantize<Int<8>>(exec, alone_columns.job);
  quantize_pair<Int<8>>(exec, rows_of_pair.job, columns_of_pair.job);
  exec.space.fence();
  CHECK(alone_rows.codes.integers() == rows_of_pair.codes.integers());
  CHECK(alone_columns.codes.integers() == columns_of_pair.codes.integers());

  // the same rows in the order of their numbers draw the same
  std::vector<double> ordered(values.size());
  for (std::size_t r = 0; r < ids.size(); ++r)
    std::copy_n(values.begin() + static_cast<long>(r) * cols, cols, ordered.begin() + ids[r] * cols);
  Noisy<Int<8>> sorted(ordered, Along::row, rows);
  quantize<Int<8>>(Exec{}, sorted.job);
  Kokkos::fence();
  const auto a = alone_rows.codes.integers(), b = sorted.codes.integers();
  for (std::size_t r = 0; r < ids.size(); ++r)
    for (int64_t c = 0; c < cols; ++c)
      REQUIRE(a[r * cols + static_cast<std::size_t>(c)] == b[static_cast<std::size_t>(ids[r] * cols + c)]);
}

TEST_CASE("a matrix and its tiles draw the same noise", "[kernels][quantize]") {
  const auto values = matrix();
  Noisy<E4M3fn> run(values, Along::row, rows);
  quantize<E4M3fn>(Exec{}, run.job);
  const DeviceBuffer codes(DType::u8, {rows, cols}), scale(DType::f32, {rows});
  TileJob tiles;
  tiles.x = run.job.x;
  tiles.tile = {1, cols, 1, 1};
  tiles.codes = codes;
  tiles.scale = scale;
  tiles.law = run.job.law;
  tiles.noise = run.job.noise;
  quantize_tiles<E4M3fn>(Exec{}, tiles);
  Kokkos::fence();
  CHECK(codes.integers() == run.codes.integers());
  CHECK(scale.floats() == run.scale.floats());
}

TEST_CASE("noise may be shared by a row, or given", "[kernels][quantize]") {
  const auto values = matrix();
  const auto codes_of = [&](auto&& change, bool tiles) {
    Noisy<Int<8>> run(values, Along::row, rows);
    change(run.job.noise);
    if (!tiles) {
      quantize<Int<8>>(Exec{}, run.job);
    } else {
      TileJob job;
      job.x = run.job.x;
      job.tile = {1, cols, 1, 1};
      job.codes = run.job.codes;
      job.scale = run.job.scale;
      job.law = run.job.law;
      job.noise = run.job.noise;
      quantize_tiles<Int<8>>(Exec{}, job);
    }
    Kokkos::fence();
    return run.codes.integers();
  };
  std::vector<double> by_row(rows), full(rows * cols);
  for (std::size_t i = 0; i < full.size(); ++i) full[i] = noise_of(Rounding::uniform, 11, noise().stream, i);
  for (std::size_t r = 0; r < by_row.size(); ++r) by_row[r] = full[r];
  const DeviceBuffer row_noise(DType::f32, {rows, 1}, by_row), all_noise(DType::f32, {rows, cols}, full),
      wrong(DType::f32, {rows, 2});
  for (const bool tiles : {false, true}) {
    const auto drawn = codes_of([](NoiseJob&) {}, tiles), shared = codes_of([](NoiseJob&n) { n.by_row = true; }, tiles);
    CHECK(codes_of([&](NoiseJob& n) { n.given = all_noise; }, tiles) == drawn);
    CHECK(codes_of([&](NoiseJob& n) { n.given = row_noise; }, tiles) == shared);
    CHECK(drawn != shared);
    CHECK_THROWS_AS(codes_of([&](NoiseJob& n) { n.given = wrong; }, tiles), Error);
  }
}

TEST_CASE("noise that is given fits a tensor of more axes as rows of its last one", "[kernels][quantize]") {
  constexpr int64_t a = 2, b = 6, c = 20;
  std::vector<double> values(a * b * c), given(values.size());
  for (std::size_t i = 0; i < values.size(); ++i) {
    values[i] = static_cast<double>(i % 37) / 36 - 0.5;
    given[i] = noise_of(Rounding::uniform, 3, 1, i);
  }
  // Blocks of half of the middle axis: a scale for each, and for each index of the last one.
  const TileShape tile{a, b / 2, 1, 1};
  const DeviceBuffer x(DType::f32, {a, b, c}, values), noise(DType::f32, {a * b, c}, given), wrong(DType::f32, {a, c});
  const auto codes_of = [&](const TensorView& n) {
    const DeviceBuffer codes(DType::i8, {a, b, c}), scale(DType::f32, {2 * c});
    TileJob job;
    job.x = x;
    job.tile = tile;
    job.codes = codes;
    job.scale = scale;
    job.law.bound = 127;
    job.noise.rounding = Rounding::uniform;
    job.noise.given = n;
    quantize_tiles<Int<8>>(Exec{}, job);
    Kokkos::fence();
    return std::pair(codes.integers(), scale.floats());
  };
  const auto [codes, scales] = codes_of(noise);
  int moved = 0, differ = 0;
  for (std::size_t i = 0; i < codes.size(); ++i) {
    const std::size_t block = i / c % b / (b / 2) * c + i % c;
    const float v = static_cast<float>(values[i]) * (1.0f / scales[block]);
    const double expected = std::clamp(std::nearbyint(static_cast<double>(v + static_cast<float>(given[i]))), -128.0, 127.0);
    differ += codes[i] != static_cast<int>(expected);
    moved += codes[i] != static_cast<int>(std::nearbyint(v));
  }
  CHECK(differ == 0);
  CHECK(moved > 20);
  CHECK_THROWS_AS(codes_of(wrong), Error);
}
