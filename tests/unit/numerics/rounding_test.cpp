#include "numerics/bf16.hpp"
#include "numerics/float.hpp"
#include "numerics/int.hpp"

#include <catch2/catch_test_macros.hpp>

#include <cmath>
#include <cstdint>

using namespace kvant;

TEST_CASE("overflow: rounded first, then the declared mode", "[numerics]") {  // report D05
  const float inf = HUGE_VALF, nan = std::nanf("");
  constexpr auto checked = [](float v) { return static_cast<int>(E4M3fn::encode_with<Overflow::to_non_finite>(v)); };
  CHECK(checked(448.0f) == 0x7e);
  CHECK(checked(464.0f) == 0x7e);  // the tie between 448 and the 480 that the format does not have
  CHECK(checked(465.0f) == 0x7f);
  CHECK(checked(500.0f) == 0x7f);
  CHECK(checked(inf) == 0x7f);
  CHECK(checked(-inf) == 0xff);
  CHECK((checked(nan) & 0x7f) == 0x7f);
  CHECK((checked(-nan) & 0x7f) == 0x7f);
  CHECK(E4M3fn::encode(500.0f) == 0x7e);
  CHECK(E4M3fn::encode(-500.0f) == 0xfe);
  CHECK(E4M3fn::encode(inf) == 0x7e);
  CHECK(E4M3fn::encode(-inf) == 0xfe);
  CHECK((E4M3fn::encode(nan) & 0x7f) == 0x7f);
  CHECK(E5M2::encode_with<Overflow::to_non_finite>(61440.0f) == 0x7c);  // midway to 65536: even is up, infinity
  CHECK(E5M2::encode_with<Overflow::to_non_finite>(61439.0f) == 0x7b);
  CHECK(E5M2::encode(1e9f) == 0x7b);
}

TEST_CASE("integers saturate at both ends and round ties to even", "[numerics]") {
  const float inf = HUGE_VALF;
  const float x[] = {1.2f, 3.5f,  -127.5f, 129.0f, -1300.0f, inf,     -inf, 0.5f,
                     1.5f, -0.5f, -2.5f,   127.5f, 126.5f,   -128.4f, 3e38f};
  const int code[] = {1, 4, -128, 127, -128, 127, -128, 0, 2, 0, -2, 127, 126, -128, 127};
  for (std::size_t i = 0; i < std::size(x); ++i) CHECK(static_cast<int>(Int<8>::encode(x[i])) == code[i]);
  for (int c = -128; c < 128; ++c) CHECK(Int<8>::encode(Int<8>::decode(static_cast<int8_t>(c))) == c);
}

namespace {

/// Nearest value of a format by search over its codes in double, ties to the code whose last bit is 0.
template <class F>
int nearest_code(double v) {
  const double magnitude =
      std::fmin(std::fabs(v), F::max_finite);  // beyond, the largest code is nearest (and double runs out of digits)
  int best = 0;
  double distance = HUGE_VAL;
  for (uint32_t code = 0; code <= F::largest_code; ++code) {
    const double d = std::fabs(static_cast<double>(F::decode(static_cast<typename F::storage>(code))) - magnitude);
    if (d < distance || (d == distance && code % 2 == 0)) {
      best = static_cast<int>(code);
      distance = d;
    }
  }
  return best | (std::signbit(v) ? static_cast<int>(F::sign_code) : 0);
}

template <class F>
int wrong_of_sweep() {
  int wrong = 0;
  uint32_t bits = 0x12345u;
  for (int i = 0; i < 20000; ++i) {
    bits = bits * 1664525u + 1013904223u;
    const bool special = (bits & 0x7f800000u) == 0x7f800000u;
    const float v = float_of(special ? bits ^ 0x40000000u : bits);
    if (static_cast<int>(F::encode(v)) != nearest_code<F>(v)) ++wrong;
    const float near =
        std::ldexp(static_cast<float>(static_cast<int32_t>(bits)) * 0x1p-31f, static_cast<int>(bits >> 7 & 31u) - 16);
    if (static_cast<int>(F::encode(near)) != nearest_code<F>(near)) ++wrong;
  }
  return wrong;
}

}  // namespace

TEST_CASE("small floats are the nearest code, ties to even, whatever the value", "[numerics]") {
  CHECK(wrong_of_sweep<E4M3fn>() == 0);
  CHECK(wrong_of_sweep<E5M2>() == 0);
  CHECK(wrong_of_sweep<Float<3, 4, FloatVariant::ieee>>() == 0);
}

TEST_CASE("f16 agrees with the compiler's _Float16 for every code and around every midpoint", "[numerics]") {
  int wrong = 0;
  for (uint32_t code = 0; code < 0x10000u; ++code) {
    const auto bits = static_cast<uint16_t>(code);
    const float ours = F16::decode(bits);
    if ((code & 0x7c00u) == 0x7c00u && (code & 0x3ffu) != 0) {  // the processor traps on a signalling one
      if (!std::isnan(ours)) ++wrong;
    } else if (bits_of(ours) != bits_of(static_cast<float>(__builtin_bit_cast(_Float16, bits)))) {
      ++wrong;
    }
  }
  for (uint32_t i = 0; i < 0x7f800000u; i += 4093) {
    for (const uint32_t sign : {0u, 0x80000000u}) {
      const float v = float_of(i | sign);
      if (F16::encode_with<Overflow::to_non_finite>(v) != __builtin_bit_cast(uint16_t, static_cast<_Float16>(v)))
        ++wrong;
    }
  }
  CHECK(wrong == 0);
}

TEST_CASE("bfloat16 rounds to nearest even and keeps infinities, NaN, zeros and subnormals", "[numerics]") {
  CHECK(to_bf16(1.0f).bits == 0x3f80);
  CHECK(to_bf16(float_of(0x3f808000u)).bits == 0x3f80);  // tie, even below
  CHECK(to_bf16(float_of(0x3f818000u)).bits == 0x3f82);  // tie, even above
  CHECK(to_bf16(float_of(0x3f808001u)).bits == 0x3f81);
  CHECK(to_bf16(HUGE_VALF).bits == 0x7f80);
  CHECK(to_bf16(3.402823466e38f).bits == 0x7f80);  // overflow, as IEEE rounds
  CHECK(to_bf16(-0.0f).bits == 0x8000);
  CHECK(to_bf16(float_of(0x00010000u)).bits == 0x0001);
  CHECK(std::isnan(to_float(to_bf16(float_of(0x7f800001u)))));
  CHECK(std::isnan(to_float(to_bf16(float_of(0xffc00000u)))));
  int wrong = 0;
  for (uint32_t code = 0; code < 0x10000u; ++code) {
    const bf16_t b{static_cast<uint16_t>(code)};
    const float v = to_float(b);
    if (!is_nan_bits(magnitude_bits(v)) && to_bf16(v).bits != b.bits) ++wrong;  // isnan traps on a signalling one
  }
  CHECK(wrong == 0);
}
