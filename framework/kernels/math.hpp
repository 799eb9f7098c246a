// Elementary functions for kernels: exp, log, sigmoid, … in float32 without a call to libm, written so that a compiler
// vectorises loops over them and so that every machine computes the same bits (each fused multiply-add is explicit, the
// build contracts nothing by itself). Largest errors, measured over all floats of the range by kernels/math_test:
//   fast_exp 1 ulp (2 of the smallest subnormal below that), fast_log 1 ulp, fast_log1p 2 ulp, fast_sigmoid and
//   fast_softplus 3 ulp, sin_cos 1 ulp.
// NaN in gives NaN out, quietly (no floating-point exception).
#pragma once

#include "numerics/bits.hpp"

#include <cstdint>

namespace kvant {

KVANT_FUNCTION inline float fused(float a, float b, float c) { return __builtin_fmaf(a, b, c); }
KVANT_FUNCTION inline double fused(double a, double b, double c) { return __builtin_fma(a, b, c); }
KVANT_FUNCTION inline float square_root(float x) { return __builtin_sqrtf(x); }
KVANT_FUNCTION inline float absolute(float x) { return float_of(magnitude_bits(x)); }
KVANT_FUNCTION inline bool is_finite(float x) { return magnitude_bits(x) < infinity_bits; }

/// a < b and false for NaN, without the exception that operator< raises.
KVANT_FUNCTION inline bool quiet_less(float a, float b) {
#if defined(__CUDA_ARCH__) || defined(__HIP_DEVICE_COMPILE__)
  return a < b;
#else
  return __builtin_isless(a, b);
#endif
}

/// e^x: x = n ln 2 + r, |r| <= ln(2) / 2, a polynomial of degree 6 in r (interpolated at Chebyshev nodes, error 1.1e-8)
/// and two exact powers of two, so that results fade into the subnormals instead of stopping at them.
KVANT_FUNCTION inline float fast_exp(float x) {
  constexpr float round_to_integer = 0x1.8p23f;  // adding it leaves the nearest integer in the low bits
  x = quiet_less(x, -104.0f) ? -104.0f : x;      // e^-104 rounds to 0
  x = quiet_less(89.0f, x) ? 89.0f : x;          // e^89 overflows
  const float shifted = fused(x, 0x1.715476p+0f, round_to_integer);
  const float n = shifted - round_to_integer;
  float r = fused(n, -0x1.62e4p-1f, x);
  r = fused(n, -0x1.7f7d1cp-20f, r);
  float q = 0x1.6d11fep-10f;
  q = fused(q, r, 0x1.120c62p-7f);
  q = fused(q, r, 0x1.555518p-5f);
  q = fused(q, r, 0x1.5554dcp-3f);
  q = fused(q, r, 0.5f);
  const float p = fused(fused(q, r, 1.0f), r, 1.0f);
  const auto power = static_cast<int32_t>(bits_of(shifted) - bits_of(round_to_integer));
  const int32_t half = power >> 1;
  return p * float_of(static_cast<uint32_t>(half + 127) << 23) *
         float_of(static_cast<uint32_t>(power - half + 127) << 23);
}

/// ln x for positive normal x (sums of exponentials). 0 and subnormals give a value below -87, negative numbers NaN,
/// infinity infinity.
KVANT_FUNCTION inline float fast_log(float x) {
  const uint32_t bits = bits_of(x);
  if (bits >= 0x7f800000u) return bits == 0x7f800000u ? x : float_of(0x7fc00000u);  // infinity, or negative or NaN
  const uint32_t shifted = bits - 0x3f3504f3u;  // so that m lies in [sqrt(1/2), sqrt(2))
  const auto exponent = static_cast<float>(static_cast<int32_t>(shifted) >> 23);
  const float m = float_of((shifted & 0x007fffffu) + 0x3f3504f3u);
  // With f = m - 1 and s = f / (2 + f): ln m = 2 atanh(s) = f - f^2/2 + s (f^2/2 + R), R = 2/3 s^2 + 2/5 s^4 + …
  const float f = m - 1.0f;
  const float s = f / (2.0f + f);
  const float z = s * s;
  float tail = 0x1.c71c72p-3f;            // 2/9
  tail = fused(tail, z, 0x1.24924ap-2f);  // 2/7
  tail = fused(tail, z, 0x1.99999ap-2f);  // 2/5
  tail = fused(tail, z, 0x1.555556p-1f);  // 2/3
  tail *= z;
  const float half_square = 0.5f * f * f;
  const float correction = fused(s, half_square + tail, exponent * 0x1.7f7d1cp-20f) - half_square;
  return fused(exponent, 0x1.62e4p-1f, correction + f);
}

/// ln(1 + y) for y in [0, 1], exact in relative terms near 0.
KVANT_FUNCTION inline float fast_log1p(float y) {
  const float u = 1.0f + y;
  return fast_log(u) + (y - (u - 1.0f)) / u;
}

/// 1 - e^-x for x >= 0, exact in relative terms near 0.
KVANT_FUNCTION inline float one_minus_exp_of_minus(float x) {
  if (!quiet_less(x, 0.5f)) return 1.0f - fast_exp(-x);
  // x - x^2/2! + x^3/3! - …, by Horner from the ninth power down
  float p = 0x1.71de3ap-19f;          // 1/9!
  p = fused(p, -x, 0x1.a01a02p-16f);  // 1/8!
  p = fused(p, -x, 0x1.a01a02p-13f);  // 1/7!
  p = fused(p, -x, 0x1.6c16c2p-10f);  // 1/6!
  p = fused(p, -x, 0x1.111112p-7f);   // 1/5!
  p = fused(p, -x, 0x1.555556p-5f);   // 1/4!
  p = fused(p, -x, 0x1.555556p-3f);   // 1/3!
  p = fused(p, -x, 0.5f);
  return fused(p * x, -x, x);
}

/// 1 / (1 + e^-x), through e^-|x| so that nothing overflows.
KVANT_FUNCTION inline float fast_sigmoid(float x) {
  const float e = fast_exp(-absolute(x));
  return (quiet_less(x, 0.0f) ? e : 1.0f) / (1.0f + e);
}

/// ln(1 + e^x).
KVANT_FUNCTION inline float fast_softplus(float x) {
  return (quiet_less(0.0f, x) ? x : 0.0f) + fast_log1p(fast_exp(-absolute(x)));
}

struct SinCos {
  float sin, cos;
};

/// sin and cos of an angle up to 1e8 radians: reduction by pi/2 in two double pieces, polynomials in double, then
/// rounded.
KVANT_FUNCTION inline SinCos sin_cos(float angle) {
  constexpr double round_to_integer = 0x1.8p52;
  const double x = angle;
  const double shifted = fused(x, 0x1.45f306dc9c883p-1, round_to_integer);  // 2 / pi
  const double n = shifted - round_to_integer;
  double r = fused(n, -0x1.921fb54442d18p+0, x);
  r = fused(n, -0x1.1a62633145c07p-54, r);
  const uint64_t quadrant = __builtin_bit_cast(uint64_t, shifted) & 3u;
  const double z = r * r;
  double s = -1.0 / 39916800.0;
  s = fused(s, z, 1.0 / 362880.0);
  s = fused(s, z, -1.0 / 5040.0);
  s = fused(s, z, 1.0 / 120.0);
  s = fused(s, z, -1.0 / 6.0);
  s = fused(s * z, r, r);
  double c = 1.0 / 479001600.0;
  c = fused(c, z, -1.0 / 3628800.0);
  c = fused(c, z, 1.0 / 40320.0);
  c = fused(c, z, -1.0 / 720.0);
  c = fused(c, z, 1.0 / 24.0);
  c = fused(c, z, -0.5);
  c = fused(c, z, 1.0);
  const bool swapped = (quadrant & 1u) != 0;
  const double first = swapped ? c : s, second = swapped ? s : c;
  return {static_cast<float>((quadrant & 2u) != 0 ? -first : first),
          static_cast<float>(quadrant == 1 || quadrant == 2 ? -second : second)};
}

}  // namespace kvant
