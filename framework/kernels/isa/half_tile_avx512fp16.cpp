// Sums in float16 for AVX-512 FP16: 12 rows x 64 columns in 24 of the 32 registers, the left element broadcast by the instruction.
#include "kernels/isa/half_tile_body.hpp"
#include "kernels/isa/vector_avx512.hpp"

namespace {

struct Fp16 {
  using Type = __m512h;
  static constexpr int width = 32;

  static Type zero() { return _mm512_setzero_ph(); }
  static Type load(const uint16_t* x) { return _mm512_castsi512_ph(_mm512_loadu_si512(x)); }
  static void multiply_add(Type& acc, const uint16_t& a, Type b) {
    acc = _mm512_fmadd_ph(_mm512_castsi512_ph(_mm512_set1_epi16(static_cast<short>(a))), b, acc);
  }
  /// n elements, 16 at a time; n is a multiple of four, and there is room to the next of 16.
  static void narrow(const float* from, int n, float factor, uint16_t* to) {
    for (int i = 0; i < n; i += 16)
      _mm256_storeu_si256(reinterpret_cast<__m256i*>(to + i),
                          _mm512_cvtps_ph(_mm512_mul_ps(_mm512_loadu_ps(from + i), _mm512_set1_ps(factor)), _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC));
  }
  static void add_to(float* c, int columns, Type acc, float factor, bool add) {
    const __m512i halves = _mm512_castph_si512(acc);
    const __m512 parts[2] = {_mm512_cvtph_ps(_mm512_castsi512_si256(halves)), _mm512_cvtph_ps(_mm512_extracti64x4_epi64(halves, 1))};
#pragma GCC unroll 2
    for (int v = 0; v < 2; ++v) {
      const __mmask16 m = Avx512::first(columns - 16 * v);
      const __m512 part = _mm512_mul_ps(parts[v], _mm512_set1_ps(factor));
      _mm512_mask_storeu_ps(c + 16 * v, m, add ? _mm512_add_ps(_mm512_maskz_loadu_ps(m, c + 16 * v), part) : part);
    }
  }
};

}  // namespace

namespace kvant::isa {

void half_tile_avx512fp16(const FloatTile& tile) { half_tile_body<Avx512, Fp16>(tile); }

}  // namespace kvant::isa
