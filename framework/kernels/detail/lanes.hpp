// Reductions within a row in sixteen lanes: the compiler keeps them in vector registers, and because the lanes and the
// order in which they are added are fixed here, the result is the same for every vector length, thread count and
// machine.
#pragma once

#include "base/kokkos.hpp"
#include "kernels/math.hpp"

#include <cstdint>

// "The iterations of this loop are independent" (outputs may be the very inputs, element by element): without it a loop
// that works in place would fall back to its scalar version.
#if defined(__CUDACC__) || defined(__HIPCC__)
#define KVANT_INDEPENDENT
#elif defined(__clang__)
#define KVANT_INDEPENDENT _Pragma("clang loop vectorize(assume_safety)")
#else
#define KVANT_INDEPENDENT _Pragma("GCC ivdep")
#endif

namespace kvant::detail {

inline constexpr int lanes = 16;

template <class V, class Term>
KOKKOS_FORCEINLINE_FUNCTION V lane_sum_as(long n, const Term& term) {
  V lane[lanes] = {};
  const long whole = n / lanes * lanes;
  for (long i = 0; i < whole; i += lanes)
    for (int l = 0; l < lanes; ++l) lane[l] += term(i + l);
  for (long i = whole; i < n; ++i) lane[i - whole] += term(i);
  for (int width = lanes / 2; width > 0; width /= 2)
    for (int l = 0; l < width; ++l) lane[l] += lane[l + width];
  return lane[0];
}

/// Sum over i in [0, n) of term(i), in float32.
template <class Term>
KOKKOS_FORCEINLINE_FUNCTION float lane_sum(long n, const Term& term) {
  return lane_sum_as<float>(n, term);
}

/// Largest key(i), an int32; `lowest` for n = 0.
template <class Key>
KOKKOS_FORCEINLINE_FUNCTION int32_t lane_max(long n, int32_t lowest, const Key& key) {
  int32_t lane[lanes];
  for (int l = 0; l < lanes; ++l) lane[l] = lowest;
  const long whole = n / lanes * lanes;
  for (long i = 0; i < whole; i += lanes)
    for (int l = 0; l < lanes; ++l) {
      const int32_t k = key(i + l);
      lane[l] = k > lane[l] ? k : lane[l];
    }
  for (long i = whole; i < n; ++i) {
    const int32_t k = key(i);
    lane[0] = k > lane[0] ? k : lane[0];
  }
  int32_t best = lane[0];
  for (int l = 1; l < lanes; ++l) best = lane[l] > best ? lane[l] : best;
  return best;
}

/// |x| as an integer that orders as |x| does, NaN above infinity: a maximum of these loses no NaN and raises no
/// exception.
KOKKOS_FORCEINLINE_FUNCTION int32_t magnitude_key(float x) { return static_cast<int32_t>(magnitude_bits(x)); }
KOKKOS_FORCEINLINE_FUNCTION float magnitude_of_key(int32_t key) { return float_of(static_cast<uint32_t>(key)); }

/// x as an integer that orders as x does (-0 below +0), any NaN on top.
KOKKOS_FORCEINLINE_FUNCTION int32_t order_key(float x) {
  const auto bits = static_cast<int32_t>(bits_of(x));
  const int32_t ordered = bits ^ ((bits >> 31) & 0x7fffffff);
  return static_cast<int32_t>(select(is_nan_bits(magnitude_bits(x)), 0x7fffffffu, static_cast<uint32_t>(ordered)));
}
KOKKOS_FORCEINLINE_FUNCTION float value_of_order_key(int32_t key) {
  return float_of(static_cast<uint32_t>(key ^ ((key >> 31) & 0x7fffffff)));
}
inline constexpr int32_t lowest_order_key = -0x7f800001;  // that of -infinity

}  // namespace kvant::detail
