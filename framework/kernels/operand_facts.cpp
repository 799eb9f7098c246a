#include "kernels/operand_facts.hpp"

#include "base/kokkos.hpp"
#include "kernels/elementwise.hpp"
#include "kernels/transfer.hpp"
#include "numerics/bits.hpp"

#include <cstring>

namespace kvant {
namespace operand_facts_detail {

struct Scales {
  const float* scale;
  const int32_t* zero;
  const int32_t* offsets;
  long groups, count, cols, high, wide;

  /// Number of the scale of an element; -1: a row of no group.
  KOKKOS_INLINE_FUNCTION long of(long r, long c) const {
    if (offsets != nullptr) {
      long g = 0;
      while (g < groups && offsets[g + 1] <= r) ++g;
      return g < groups ? g * cols + c : -1;
    }
    return count == 1 ? 0 : r / high * (cols / wide) + c / wide;
  }
};

}  // namespace operand_facts_detail

OperandFacts operand_facts(const Exec& exec, const OperandFactsJob& job) {
  const float* v = job.values.as<float>();
  const float* code = job.decoded.as<float>();
  const long rows = job.values.rows(), cols = job.values.cols();
  const bool ragged = job.offsets.data != nullptr;
  const operand_facts_detail::Scales scales{job.scale.as<float>(), static_cast<const int32_t*>(job.zero_point.data),
                                            ragged ? job.offsets.as<int32_t>() : nullptr, ragged ? static_cast<long>(job.offsets.numel()) - 1 : 1,
                                            static_cast<long>(job.scale.numel()), cols, job.tile[0], job.tile[1]};
  auto* result = static_cast<int32_t*>(job.workspace.data);
  fill(exec, job.workspace, 0.0f);
  const float largest_code = job.largest_code;
  Kokkos::parallel_for(
      "kvant::operand_facts", Range(exec.space, 0, rows), KOKKOS_LAMBDA(const long r) {
        int32_t largest = 0, largest_scale = 0, nonzero = 0, zeroed = 0, saturated = 0;
        for (long c = 0; c < cols; ++c) {
          const long i = r * cols + c, s = scales.of(r, c);
          const auto magnitude = static_cast<int32_t>(magnitude_bits(v[i]));
          largest = magnitude > largest ? magnitude : largest;
          if (s < 0) continue;
          const float scale = scales.scale[s], zero = scales.zero == nullptr ? 0.0f : static_cast<float>(scales.zero[s]);
          const auto scale_bits = static_cast<int32_t>(magnitude_bits(scale));
          largest_scale = scale_bits > largest_scale ? scale_bits : largest_scale;
          const float value = float_of(magnitude_bits((code[i] - zero) * scale));
          nonzero += magnitude != 0;
          zeroed += magnitude != 0 && value == 0.0f;
          // A row's largest entry maps to the largest code, up to rounding; what was clipped lies clearly beyond it.
          saturated += float_of(magnitude_bits(code[i])) >= largest_code && float_of(static_cast<uint32_t>(magnitude)) > value * 1.00001f;
        }
        Kokkos::atomic_max(result, largest);  // bits of magnitudes order like their values
        Kokkos::atomic_max(result + 1, largest_scale);
        Kokkos::atomic_add(result + 2, nonzero);
        Kokkos::atomic_add(result + 3, zeroed);
        Kokkos::atomic_add(result + 4, saturated);
      });
  int32_t host[5];
  download(exec, job.workspace, host);
  OperandFacts facts;
  std::memcpy(&facts.largest, host, sizeof(float));
  std::memcpy(&facts.scale, host + 1, sizeof(float));
  facts.elements = job.values.numel();
  facts.nonzero = host[2];
  facts.zeroed = host[3];
  facts.saturated = host[4];
  return facts;
}

}  // namespace kvant
