#include "kernels/isa/sgemm_leaf.hpp"

#include "support/gemm_case.hpp"

#include <catch2/catch_test_macros.hpp>

#include <vector>

using namespace kvant;
using namespace kvant::test;

namespace {

/// Values in rows of cols + padding, NaN between them: a leaf that reads there spoils its result.
std::vector<float> padded(const Values& x, std::size_t cols, std::size_t padding) {
  std::vector<float> y;
  for (std::size_t i = 0; i < x.size(); ++i) {
    y.push_back(static_cast<float>(x[i]));
    if ((i + 1) % cols == 0) y.insert(y.end(), padding, std::nanf(""));
  }
  y.push_back(0.0f);  // data() of an empty operand is not null
  return y;
}

struct LeafCase {
  int m, n, k;
  bool trans_a, trans_b, add;
  float alpha;

  std::vector<float> run(SgemmLeaf leaf, const Values& a, const Values& b, const Values& before) const {
    const std::size_t cols_a = static_cast<std::size_t>(trans_a ? m : k), cols_b = static_cast<std::size_t>(trans_b ? k : n);
    const std::vector<float> xa = padded(a, std::max<std::size_t>(cols_a, 1), 3), xb = padded(b, std::max<std::size_t>(cols_b, 1), 1);
    std::vector<float> c = padded(before, static_cast<std::size_t>(n), 2);
    const std::vector<float> untouched = c;
    leaf(m, n, k, xa.data(), static_cast<int64_t>(cols_a) + 3, trans_a, xb.data(), static_cast<int64_t>(cols_b) + 1, trans_b, c.data(), n + 2, alpha, add);
    std::vector<float> result;
    for (int i = 0; i < m; ++i) {
      const auto row = c.begin() + static_cast<std::ptrdiff_t>(i) * (n + 2);
      result.insert(result.end(), row, row + n);
      CHECK((std::isnan(row[n]) && std::isnan(row[n + 1])));  // nothing is written between rows
    }
    return result;
  }
};

}  // namespace

TEST_CASE("the f32 leaf is exact on integers for every remainder, orientation and ISA") {
  for (const int m : {1, 2, 3, 5, 6, 7, 13, 64})
    for (const int n : {1, 7, 8, 9, 15, 16, 17, 31, 48, 49, 63, 64, 65, 130})
      for (const int k : {0, 1, 5, 8, 16, 17, 33, 257}) {
        const uint32_t mix = philox(3, 0, static_cast<uint64_t>(m * 7 + n * 13 + k * 29)).word[0];
        const LeafCase leaf{m, n, k, (mix & 1) != 0, (mix & 2) != 0, (mix & 4) != 0, mix & 8 ? 1.0f : 0.5f};
        CAPTURE(m, n, k, leaf.trans_a, leaf.trans_b, leaf.add, leaf.alpha);
        const auto um = static_cast<std::size_t>(m), un = static_cast<std::size_t>(n), uk = static_cast<std::size_t>(k);
        const Values a = random_integers(um * uk, 1), b = random_integers(uk * un, 2), before = random_integers(um * un, 3);
        Values want = reference::gemm({um, un, uk, leaf.trans_a, leaf.trans_b}, a, b);
        for (double& v : want) v *= leaf.alpha;
        want = expected(want, before, leaf.add);
        for (const Isa isa : isas_here()) {
          INFO("ISA " << name_of(isa));
          const std::vector<float> got = leaf.run(sgemm_leaf(isa), a, b, before);
          REQUIRE(Values(got.begin(), got.end()) == want);
        }
      }
}

TEST_CASE("the f32 leaf sums in one order on every ISA") {
  const LeafCase leaf{37, 83, 600, false, true, true, 0.37f};
  const Values a = random_values(37 * 600, 1), b = random_values(83 * 600, 2), before = random_values(37 * 83, 3);
  const std::vector<float> portable = leaf.run(sgemm_leaf(Isa::portable), a, b, before);
  for (const Isa isa : isas_here()) CHECK(leaf.run(sgemm_leaf(isa), a, b, before) == portable);
  Values want = reference::gemm({37, 83, 600, false, true}, a, b);
  for (std::size_t i = 0; i < want.size(); ++i) want[i] = 0.37f * want[i] + before[i];
  check_close(Values(portable.begin(), portable.end()), want, 1e-6, 2e-5);
}
