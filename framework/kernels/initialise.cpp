#include "kernels/initialise.hpp"

#include "base/kokkos.hpp"

namespace kvant {
namespace {

/// One standard normal from attempt number `attempt` of element i. Double arithmetic: it is done once per run.
KOKKOS_INLINE_FUNCTION double standard_normal(uint64_t seed, uint64_t stream, uint64_t i, uint64_t attempt) {
  const Random4 r = philox(seed, stream + attempt * 0x9E3779B97F4A7C15ull, i);
  // 53 and 32 bits: u in (0, 1], so that the logarithm is finite.
  const double u = (static_cast<double>((uint64_t{r.word[0]} << 21) ^ (r.word[1] >> 11)) + 1.0) * 0x1p-53;
  const double v = static_cast<double>(r.word[2]) * 0x1p-32;
  return Kokkos::sqrt(-2.0 * Kokkos::log(u)) * Kokkos::cos(6.283185307179586 * v);
}

}  // namespace

void initialise_normal(const Exec& exec, const TensorView& x, uint64_t seed, uint64_t stream, double std, bool truncated) {
  float* out = x.as<float>();
  constexpr double deviation_of_truncated = 0.87962566103423978;  // of a normal cut at ±2
  const double sigma = truncated ? std / deviation_of_truncated : std;
  Kokkos::parallel_for(
      "kvant::initialise_normal", Range(exec.space, 0, x.numel()), KOKKOS_LAMBDA(const long i) {
        const auto element = static_cast<uint64_t>(i);
        double z = standard_normal(seed, stream, element, 0);
        for (uint64_t attempt = 1; truncated && (z > 2.0 || z < -2.0) && attempt < 64; ++attempt)
          z = standard_normal(seed, stream, element, attempt);
        out[i] = static_cast<float>(sigma * z);
      });
}

}  // namespace kvant
