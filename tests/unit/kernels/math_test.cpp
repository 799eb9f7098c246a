// Errors of the elementary functions in units of the last place, against long double.
#include "kernels/math.hpp"

#include <catch2/catch_test_macros.hpp>

#include <algorithm>
#include <cmath>
#include <limits>

namespace {

using namespace kvant;

double ulps(float got, long double exact) {
  const auto nearest = static_cast<float>(exact);
  if (got == nearest) return 0.0;
  const float magnitude = std::max(std::fabs(nearest), std::numeric_limits<float>::min());
  const double step = std::ldexp(1.0, std::ilogb(magnitude) - 23);
  return static_cast<double>(std::fabs(static_cast<long double>(got) - exact)) / step;
}

/// Largest error over every `step`-th float between two positive bit patterns, both signs where asked.
template <class F, class G>
double worst(float from, float to, uint32_t step, bool both_signs, F&& f, G&& exact) {
  double w = 0.0;
  for (uint32_t bits = bits_of(from); bits <= bits_of(to); bits += step) {
    const float x = float_of(bits);
    w = std::max(w, ulps(f(x), exact(static_cast<long double>(x))));
    if (both_signs) w = std::max(w, ulps(f(-x), exact(-static_cast<long double>(x))));
  }
  return w;
}

constexpr uint32_t prime_step = 1009;  // about a million floats of each sign per function
const float tiny = std::numeric_limits<float>::min();
const float infinity = std::numeric_limits<float>::infinity();
const float nan_value = std::numeric_limits<float>::quiet_NaN();

}  // namespace

TEST_CASE("fast_exp is within an ulp and fades into the subnormals") {
  const auto exact = [](long double x) { return std::exp(x); };
  CHECK(worst(1e-30f, 87.3f, prime_step, true, fast_exp, exact) <= 1.0);
  CHECK(worst(87.3f, 88.72f, 7, false, fast_exp, exact) <= 1.0);
  for (float x = -87.0f; x > -104.5f; x -= 0.001f) {
    const double error = std::fabs(static_cast<double>(fast_exp(x)) - std::exp(static_cast<double>(x)));
    REQUIRE(error <= std::max(2.0 * 0x1p-149, std::exp(static_cast<double>(x)) * 0x1p-23));
  }
  CHECK(fast_exp(0.0f) == 1.0f);
  CHECK(fast_exp(-200.0f) == 0.0f);
  CHECK(fast_exp(-infinity) == 0.0f);
  CHECK(fast_exp(200.0f) == infinity);
  CHECK(std::isnan(fast_exp(nan_value)));
}

TEST_CASE("fast_log, fast_log1p and one_minus_exp_of_minus keep their bounds") {
  CHECK(worst(tiny, 3.4e38f, prime_step, false, fast_log, [](long double x) { return std::log(x); }) <= 1.0);
  CHECK(worst(0.7f, 1.5f, 13, false, fast_log, [](long double x) { return std::log(x); }) <= 1.0);
  CHECK(worst(tiny, 1.0f, prime_step, false, fast_log1p, [](long double x) { return std::log1p(x); }) <= 2.0);
  CHECK(worst(tiny, 100.0f, prime_step, false, one_minus_exp_of_minus, [](long double x) { return -std::expm1(-x); }) <=
        2.0);
  CHECK(fast_log(1.0f) == 0.0f);
  CHECK(fast_log(infinity) == infinity);
  CHECK(std::isnan(fast_log(nan_value)));
  CHECK(std::isnan(fast_log(-1.0f)));
}

TEST_CASE("fast_sigmoid and fast_softplus keep their bounds") {
  const auto sigmoid = [](long double x) { return 1.0L / (1.0L + std::exp(-x)); };
  const auto softplus = [](long double x) { return x > 0 ? x + std::log1p(std::exp(-x)) : std::log1p(std::exp(x)); };
  CHECK(worst(1e-30f, 87.0f, prime_step, true, fast_sigmoid, sigmoid) <= 3.0);
  CHECK(worst(1e-30f, 87.0f, prime_step, true, fast_softplus, softplus) <= 3.0);
  CHECK(fast_sigmoid(0.0f) == 0.5f);
  CHECK(fast_sigmoid(infinity) == 1.0f);
  CHECK(fast_sigmoid(-infinity) == 0.0f);
  CHECK(std::isnan(fast_sigmoid(nan_value)));
}

TEST_CASE("sin_cos is within an ulp up to the angles of position 163840") {
  const auto sine = [](float x) { return sin_cos(x).sin; };
  const auto cosine = [](float x) { return sin_cos(x).cos; };
  CHECK(worst(1e-30f, 200000.0f, prime_step, true, sine, [](long double x) { return std::sin(x); }) <= 1.0);
  CHECK(worst(1e-30f, 200000.0f, prime_step, true, cosine, [](long double x) { return std::cos(x); }) <= 1.0);
  for (int position = 0; position < 163840; ++position) {
    const auto x = static_cast<float>(position);
    REQUIRE(ulps(sin_cos(x).sin, std::sin(static_cast<long double>(x))) <= 1.0);
    REQUIRE(ulps(sin_cos(x).cos, std::cos(static_cast<long double>(x))) <= 1.0);
  }
}
