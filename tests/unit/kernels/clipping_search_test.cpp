#include "reference/clipping_search.hpp"
#include "kernels/clipping_search_kernel.hpp"
#include "numerics/formats.hpp"
#include "support/device_buffer.hpp"
#include "support/threads.hpp"

#include <catch2/catch_template_test_macros.hpp>
#include <catch2/catch_test_macros.hpp>

using namespace kvant;
using kvant::test::DeviceBuffer;

namespace {

/// Sums of four uniform numbers, to the third power: a long tail.
std::vector<double> long_tailed(int64_t count, uint64_t seed) {
  std::vector<double> x(static_cast<std::size_t>(count));
  for (std::size_t i = 0; i < x.size(); ++i) {
    const Random4 r = philox(seed, 5, i);
    double sum = -2;
    for (const uint32_t word : r.word) sum += static_cast<double>(uniform01(word));
    x[i] = static_cast<float>(sum * sum * sum);
  }
  return x;
}

struct Search {
  DeviceBuffer values, largest, range, workspace;
  ClippingSearch job;

  Search(int64_t tiles, int64_t n, const std::vector<double>& x, float bound)
      : values(DType::f32, {tiles, n}, x), largest(DType::f32, {tiles}), range(DType::f32, {tiles}) {
    job.values = values;
    job.largest = largest;
    job.range = range;
    job.law.bound = job.law.limit = bound;
    workspace = DeviceBuffer(DType::i32, {static_cast<int64_t>(clipping_workspace_bytes(job) / 4) + 2});
    job.workspace = workspace.view().data;
  }
  template <class F>
  std::vector<float> run(const Exec& exec = {}) {
    tile_maxima(exec, values, largest);
    search_clipping<F>(exec, job);
    exec.space.fence();
    return range.floats();
  }
};

}  // namespace

TEMPLATE_TEST_CASE("the best of the candidates is found", "[kernels][clipping]", Int<2>, Int<4>, Int<8>, E4M3fn, E2M1,
                   Nf4) {
  using F = TestType;
  for (const auto& [tiles, n] : {std::pair<int64_t, int64_t>{7, 32}, {3, 1000}, {1, 4096}, {2, 9001}}) {
    const auto x = long_tailed(tiles * n, 3);
    Search search(tiles, n, x, F::max_finite);
    const auto range = search.run<F>();
    const auto largest = search.largest.floats();
    for (int64_t t = 0; t < tiles; ++t) {
      const std::vector<double> values(x.begin() + t * n, x.begin() + (t + 1) * n);
      double most = 0;
      for (const double v : values) most = std::fmax(most, std::fabs(v));
      const auto i = static_cast<std::size_t>(t);
      CHECK(largest[i] == static_cast<float>(most));
      double least = HUGE_VAL;
      for (int k = 0; k < 40; ++k)
        least = std::fmin(
            least, reference::squared_error<F>(values, reference::candidate_range(most, k, 40, 0.2), F::max_finite));
      const double got = reference::squared_error<F>(values, static_cast<double>(range[i]), F::max_finite);
      INFO(tiles << " tiles of " << n << ", range " << range[i] / largest[i]);
      CHECK(got <= least * (1 + 1e-5));
    }
  }
}

TEST_CASE("few levels clip a long tail, many do not", "[kernels][clipping]") {
  const auto x = long_tailed(4096, 4);
  Search coarse(1, 4096, x, 1.0f), fine(1, 4096, x, 448.0f);
  const float low = coarse.run<Int<2>>()[0], high = fine.run<E4M3fn>()[0];
  CHECK(low < 0.6f * coarse.largest.floats()[0]);
  CHECK(high > 0.8f * fine.largest.floats()[0]);
  Search whole(1, 4, {1, -1, 0, 1}, 7.0f);  // without an error at the largest range, that one
  CHECK(whole.run<Int<4>>()[0] == 1.0f);
}

TEST_CASE("a search gives the same range with one thread and with two", "[kernels][clipping]") {
  if constexpr (!test::can_choose_threads) {
    SKIP("The number of threads cannot be chosen on this backend.");
  } else {
    const auto x = long_tailed(2 * 20000, 5);
    Search one(2, 20000, x, 7.0f), two(2, 20000, x, 7.0f);
    CHECK(one.run<Int<4>>(test::exec_with_threads(1)) == two.run<Int<4>>(test::exec_with_threads(2)));
  }
}

TEST_CASE("a search whose parts do not fit is refused", "[kernels][clipping]") {
  const auto refused = [](auto&& change) {
    Search s(2, 9000, long_tailed(18000, 6), 7.0f);
    change(s);
    CHECK_THROWS_AS(search_clipping<Int<4>>(Exec{}, s.job), Error);
  };
  refused([](Search& s) { s.job.candidates = 1; });
  refused([](Search& s) { s.job.lowest = 1.0f; });
  refused([](Search& s) { s.job.workspace = nullptr; });
  refused([](Search& s) { s.job.range = s.range.view().slice_rows(0, 1); });
  refused([](Search& s) { s.job.values.dtype = DType::i32; });
  Search s(2, 9000, long_tailed(18000, 6), 7.0f);
  CHECK_THROWS_AS(tile_maxima(Exec{}, s.values, s.largest.view().slice_rows(0, 1)), Error);
}
