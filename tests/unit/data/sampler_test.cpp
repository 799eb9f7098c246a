#include "data/sampler.hpp"
#include "base/error.hpp"

#include <algorithm>
#include <catch2/catch_test_macros.hpp>
#include <vector>

using namespace kvant::data;

TEST_CASE("shuffled is a permutation for every count") {
  for (const int64_t count : {1, 2, 3, 4, 5, 15, 16, 17, 63, 64, 65, 1000, 4097}) {
    std::vector<int64_t> hit(static_cast<size_t>(count), 0);
    for (int64_t i = 0; i < count; ++i) {
      const int64_t to = shuffled(7, 1, i, count);
      REQUIRE(to >= 0);
      REQUIRE(to < count);
      ++hit[static_cast<size_t>(to)];
    }
    CHECK(std::all_of(hit.begin(), hit.end(), [](int64_t n) { return n == 1; }));
  }
}

TEST_CASE("shuffled spreads: rank correlation and fixed points are those of a random order") {
  const int64_t n = 10000;
  for (const uint64_t seed : {0, 1, 2}) {
    double sum = 0;
    int64_t fixed = 0, neighbours = 0;
    for (int64_t i = 0; i < n; ++i) {
      const int64_t to = shuffled(seed, 0, i, n);
      sum += (static_cast<double>(i) - (n - 1) / 2.0) * (static_cast<double>(to) - (n - 1) / 2.0);
      fixed += to == i;
      if (i > 0) neighbours += to == shuffled(seed, 0, i - 1, n) + 1;
    }
    const double correlation = sum / (static_cast<double>(n) * (static_cast<double>(n) * n - 1) / 12.0);
    CHECK(std::abs(correlation) < 0.05);  // five standard deviations
    CHECK(fixed < 10);                    // expected: 1
    CHECK(neighbours < 10);               // expected: 1
  }
}

TEST_CASE("the row is a function of seed, epoch and index alone") {
  const Sampler sampler(5, 100), again(5, 100), other(6, 100);
  std::vector<int64_t> first, second, with_other_seed;
  for (int64_t i = 0; i < 100; ++i) {
    first.push_back(sampler.row({0, i}));
    second.push_back(sampler.row({1, i}));
    with_other_seed.push_back(other.row({0, i}));
  }
  CHECK(first != second);
  CHECK(first != with_other_seed);
  for (int64_t i = 99; i >= 0; --i)
    CHECK(again.row({0, i}) == first[static_cast<size_t>(i)]);  // whatever was asked before
  std::sort(first.begin(), first.end());
  std::sort(second.begin(), second.end());
  CHECK(first == second);
}

TEST_CASE("positions advance over the ends of epochs, in one go or in parts") {
  const Sampler sampler(0, 10);
  CHECK(sampler.advance({}, 7) == SamplerPosition{0, 7});
  CHECK(sampler.advance({0, 7}, 3) == SamplerPosition{1, 0});
  CHECK(sampler.advance({2, 9}, 25) == SamplerPosition{5, 4});
  SamplerPosition position;
  for (int step = 0; step < 13; ++step) position = sampler.advance(position, 4);
  CHECK(position == sampler.advance({}, 52));
}

TEST_CASE("what cannot be sampled is an error") {
  CHECK_THROWS_AS(Sampler(0, 0), kvant::Error);
  CHECK_THROWS_AS(Sampler(0, 3).row({0, 3}), kvant::Error);
  CHECK_THROWS_AS(Sampler(0, 3).row({-1, 0}), kvant::Error);
  CHECK_THROWS_AS(Sampler(0, 3).advance({0, 0}, -1), kvant::Error);
  CHECK_THROWS_AS(shuffled(0, 0, 0, (int64_t{1} << 62) + 1), kvant::Error);
}
