// Stochastic rounding: how often each neighbour is drawn, and that draws have nothing to do with each other.
#include "numerics/formats.hpp"
#include "numerics/noise.hpp"
#include "numerics/stochastic.hpp"

#include <catch2/catch_template_test_macros.hpp>
#include <catch2/catch_test_macros.hpp>

#include <algorithm>
#include <cmath>
#include <vector>

using namespace kvant;

namespace {

constexpr uint64_t seed = 20, steps = 4096, elements = 8;
const uint64_t purpose = stream_of("decoder/layers/mlp/wo dgrad");

/// 1 where element `e` was rounded up in a step.
template <class F>
std::vector<double> draws(float v, float upper, Rounding rounding, uint64_t name, uint64_t e, uint64_t micro_batch = 0,
                          uint64_t first_step = 0) {
  std::vector<double> up(steps);
  for (uint64_t s = 0; s < steps; ++s) {
    const float noise = noise_of(rounding, seed, noise_stream(name, first_step + s, micro_batch), e);
    up[s] = F::decode(F::encode_noisy(v, noise)) == upper;
  }
  return up;
}

double mean(const std::vector<double>& x) {
  double sum = 0;
  for (const double v : x) sum += v;
  return sum / static_cast<double>(x.size());
}

double correlation(const std::vector<double>& x, const std::vector<double>& y) {
  const double mx = mean(x), my = mean(y);
  double xy = 0, xx = 0, yy = 0;
  for (std::size_t i = 0; i < x.size(); ++i) {
    xy += (x[i] - mx) * (y[i] - my);
    xx += (x[i] - mx) * (x[i] - mx);
    yy += (y[i] - my) * (y[i] - my);
  }
  return xy / std::sqrt(xx * yy);
}

}  // namespace

TEMPLATE_TEST_CASE("a value a third of the way between two codes is rounded up a third of the time", "[numerics]",
                   Int<2>, Int<4>, Int<8>, Int<16>, UInt<4>, UInt<8>, E4M3fn, E5M2, E4M3, E3M4, E2M1, E4M3fnuz,
                   E5M2fnuz, E4M3b11fnuz, Nf4, F16) {
  using F = TestType;
  using Code = typename F::storage;
  for (const Rounding rounding : {Rounding::uniform, Rounding::low_bit_uniform}) {
    // around zero and the subnormal codes, at the first normal ones, in the middle, below the largest
    const int last = (1 << (std::min(F::code_bits, 12) - 1)) - 2;
    for (const int code : {0, 1, 3, 6, 7, 8, last / 2, last}) {
      if (code < 0 || code > last) continue;
      const float low = F::decode(static_cast<Code>(code)), high = F::decode(static_cast<Code>(code + 1));
      if (!std::isfinite(low) || !std::isfinite(high)) continue;
      for (const float sign : {1.0f, -1.0f}) {
        if (sign < 0 && (F::lowest == 0 || std::is_same_v<F, Nf4>)) continue;
        const float v = sign * (low + (high - low) / 3);
        for (uint64_t e = 0; e < elements; ++e) {
          const double frequency = mean(draws<F>(v, sign * high, rounding, purpose, e));
          INFO("code " << code << " value " << v << " element " << e);
          CHECK(std::fabs(frequency - 1.0 / 3) < 4 * std::sqrt(2.0 / 9 / steps));
        }
      }
      // a code itself stays
      CHECK(F::decode(F::encode_noisy(low, -0.499f)) == low);
      CHECK(F::decode(F::encode_noisy(low, 0.499f)) == low);
    }
  }
}

TEST_CASE("draws of neighbours, steps, micro-batches and streams are not correlated", "[numerics]") {
  const float v = 1.0f + 0.125f / 3;
  for (const Rounding rounding : {Rounding::uniform, Rounding::low_bit_uniform}) {
    for (uint64_t e = 0; e < elements; ++e) {
      const auto up = draws<E4M3fn>(v, 1.125f, rounding, purpose, e);
      CHECK(std::fabs(correlation(up, draws<E4M3fn>(v, 1.125f, rounding, purpose, e + 1))) < 0.05);
      CHECK(std::fabs(correlation(up, draws<E4M3fn>(v, 1.125f, rounding, purpose, e + 4))) < 0.05);
      CHECK(std::fabs(correlation(up, draws<E4M3fn>(v, 1.125f, rounding, purpose, e, 0, 1))) < 0.05);
      CHECK(std::fabs(correlation(up, draws<E4M3fn>(v, 1.125f, rounding, purpose, e, 1))) < 0.05);
      CHECK(std::fabs(correlation(up, draws<E4M3fn>(v, 1.125f, rounding, stream_of("wo wgrad"), e))) < 0.05);
    }
  }
}

TEST_CASE("a million copies of a tie have its mean", "[numerics]") {  // report D10
  double sum = 0;
  const uint64_t stream = noise_stream(purpose, 3, 0);
  for (uint64_t i = 0; i < 1000000; ++i)
    sum += E4M3fn::decode(E4M3fn::encode_noisy(1.0625f, noise_of(Rounding::uniform, seed, stream, i)));
  CHECK(std::fabs(sum / 1e6 - 1.0625) < 0.0002);
}

TEST_CASE("noise has the levels that are written", "[numerics]") {
  CHECK(noise_of(Rounding::uniform, 0u) == -0.5f);
  CHECK(noise_of(Rounding::uniform, 0xffffffffu) == 0.5f - 0x1p-23f);
  CHECK(noise_of(Rounding::low_bit_uniform, 0u) == -255.0f / 512);
  CHECK(noise_of(Rounding::low_bit_uniform, 0xffffffffu) == 255.0f / 512);
  double sum = 0;
  for (uint32_t r = 0; r < 256; ++r) {
    const float noise = noise_of(Rounding::low_bit_uniform, r << 24);
    CHECK(noise != 0.0f);
    sum += noise;
  }
  CHECK(sum == 0.0);
}

TEST_CASE("noise moves overflow, NaN and zero nowhere", "[numerics]") {
  CHECK(E4M3fn::encode_noisy(1e9f, 0.49f) == 0x7e);
  CHECK(E4M3fn::encode_noisy(-1e9f, 0.49f) == 0xfe);
  CHECK((E4M3fn::encode_noisy(std::nanf(""), 0.25f) & 0x7f) == 0x7f);
  CHECK(Int<8>::encode_noisy(std::nanf(""), 0.25f) == 0);
  CHECK(Int<8>::encode_noisy(127.4f, 0.49f) == 127);
  CHECK(Nf4::encode_noisy(-7.0f, 0.49f) == 0);
  CHECK(Nf4::encode_noisy(7.0f, -0.49f) == 15);
  for (const float noise : {-0.5f, -0.25f, 0.49f}) {
    CHECK(E5M2::encode_noisy(0.0f, noise) == 0);
    CHECK(E4M3fnuz::encode_noisy(-0.0f, noise) == 0);  // whose negative zero would be NaN
  }
}

namespace {

/// The same codes as a plugin would write them: encode and decode, and nothing else.
template <class F>
struct Bare {
  using storage = typename F::storage;
  static constexpr float max_finite = F::max_finite;
  static storage encode(float v) { return F::encode(v); }
  static float decode(storage code) { return F::decode(code); }
};

/// Values, of 2000 random ones, that are rounded to another code than the two around them (found by looking at all codes), or to
/// the upper one not as often as the place between the two says, over 64 equally spaced draws of noise.
template <class F>
int wrong_values() {
  std::vector<float> values;
  for (int code = 0; code < 256; ++code)
    if (const float v = F::decode(static_cast<typename F::storage>(code)); std::isfinite(v)) values.push_back(v);
  int wrong = 0;
  for (uint64_t i = 0; i < 2000; ++i) {
    const auto r = philox(11, 5, i);
    const float v = std::fmod((2.0f * uniform01(r.word[0]) - 1.0f) * power_of_two(static_cast<int>(r.word[2] % 30) - 18), F::max_finite);
    float lower = -INFINITY, upper = INFINITY;
    for (const float x : values) {
      if (x <= v) lower = std::max(lower, x);
      if (x >= v) upper = std::min(upper, x);
    }
    int up = 0;
    bool strange = false;
    for (int k = 0; k < 64; ++k) {
      const float x = F::decode(encode_with_noise<Bare<F>>(v, static_cast<float>(2 * k - 63) / 128.0f));
      strange |= x != lower && x != upper;
      up += x == upper;
    }
    const float place = upper > lower ? (v - lower) / (upper - lower) : 1.0f;
    wrong += strange || std::fabs(static_cast<float>(up) / 64.0f - place) > 1.01f / 64.0f;
  }
  return wrong;
}

}  // namespace

TEST_CASE("a format of encode and decode alone is rounded to its two neighbours, each as often as it is near") {
  CHECK(wrong_values<E4M3fn>() == 0);
  CHECK(wrong_values<E5M2>() == 0);
  CHECK(wrong_values<Int<8>>() == 0);
  CHECK(encode_with_noise<Bare<E4M3fn>>(1000.0f, 0.25f) == E4M3fn::encode(448.0f));
  CHECK(encode_with_noise<Bare<E4M3fn>>(0.0f, 0.49f) == E4M3fn::encode(0.0f));
  CHECK(std::isnan(E4M3fn::decode(encode_with_noise<Bare<E4M3fn>>(NAN, 0.1f))));
}
