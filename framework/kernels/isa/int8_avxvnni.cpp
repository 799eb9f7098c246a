// int8 for AVX-VNNI (256 bits): 4 rows x 24 columns in 12 of the 16 registers.
#include "kernels/isa/int8_vnni_body.hpp"
#include "kernels/isa/int8_store_avx2.hpp"

namespace {

struct Vnni256 : StoreAvx2 {
  static constexpr int vectors = 3, rows = 4;

  static Sum zero() { return _mm256_setzero_si256(); }
  static Sum load(const void* x) { return _mm256_loadu_si256(static_cast<const __m256i*>(x)); }
  static Sum broadcast(const uint8_t* x) { return _mm256_set1_epi32(load_four(x)); }
  /// Written as assembly: with the intrinsic g++ 12 to 14 copy every sum to the stack in the loop.
  static void multiply_add(Sum& acc, Sum a, Sum b) { asm("%{vex%} vpdpbusd %2, %1, %0" : "+x"(acc) : "x"(a), "x"(b)); }
  static Sum times_128(Sum x) { return _mm256_slli_epi32(x, 7); }
  static Sum subtract(Sum a, Sum b) { return _mm256_sub_epi32(a, b); }
};

}  // namespace

namespace kvant::isa {

const Int8Leaf& int8_avxvnni() {
  static constexpr Int8Leaf leaf = {{vnni_rows, 1, Vnni256::vectors * Vnni256::width, Vnni256::width, 4},
                                    vnni_pack_rows,
                                    vnni_pack_columns<Vnni256>,
                                    vnni_multiply<Vnni256>};
  return leaf;
}

}  // namespace kvant::isa
