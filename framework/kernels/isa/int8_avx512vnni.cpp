// int8 for AVX-512 VNNI: 8 rows x 48 columns in 24 of the 32 registers.
#include "kernels/isa/int8_vnni_body.hpp"

namespace {

struct Vnni512 {
  using Sum = __m512i;
  using Float = __m512;
  static constexpr int width = 16, vectors = 3, rows = 8;

  static Sum zero() { return _mm512_setzero_si512(); }
  static Sum load(const void* x) { return _mm512_loadu_si512(x); }
  static Sum broadcast(const uint8_t* x) { return _mm512_set1_epi32(load_four(x)); }
  /// Written as assembly: with the intrinsic g++ 12 to 14 copy every sum to the stack in the loop, at a third of the speed.
  static void multiply_add(Sum& acc, Sum a, Sum b) { asm("vpdpbusd %2, %1, %0" : "+v"(acc) : "v"(a), "v"(b)); }
  static Sum times_128(Sum x) { return _mm512_slli_epi32(x, 7); }
  static Sum subtract(Sum a, Sum b) { return _mm512_sub_epi32(a, b); }
  static Float to_float(Sum x) { return _mm512_cvtepi32_ps(x); }
  static Float set(float x) { return _mm512_set1_ps(x); }
  static Float mul(Float a, Float b) { return _mm512_mul_ps(a, b); }
  static __mmask16 first(int64_t n) { return n >= 16 ? __mmask16(0xffff) : __mmask16((1u << n) - 1); }
  static Float load_scale(const float* x, int64_t at, int64_t stride, int64_t n) {
    return stride == 0 ? set(*x) : _mm512_maskz_loadu_ps(first(n), x + at);
  }
  static void store(float* c, int64_t n, Float v, bool add) {
    const __mmask16 m = first(n);
    _mm512_mask_storeu_ps(c, m, add ? _mm512_add_ps(_mm512_maskz_loadu_ps(m, c), v) : v);
  }
};

}  // namespace

namespace kvant::isa {

const Int8Leaf& int8_avx512vnni() {
  static constexpr Int8Leaf leaf = {{vnni_rows, 1, Vnni512::vectors * Vnni512::width, Vnni512::width, 4},
                                    vnni_pack_rows,
                                    vnni_pack_columns<Vnni512>,
                                    vnni_multiply<Vnni512>};
  return leaf;
}

}  // namespace kvant::isa
