#include "kernels/range_history.hpp"

#include "base/kokkos.hpp"
#include "numerics/bits.hpp"

namespace kvant {

void clear_history(const Exec& exec, const RangeHistory& h, float initial) {
  float* ring = h.ring.as<float>();
  float* range = h.range.as<float>();
  auto* observed = static_cast<int32_t*>(h.observed.data);
  Kokkos::parallel_for(
      "kvant::clear_history", Range(exec.space, 0, h.ring.numel()), KOKKOS_LAMBDA(const long i) {
        ring[i] = 0.0f;
        if (i > 0) return;
        observed[0] = 0;
        range[0] = initial;
      });
}

void observe(const Exec& exec, const RangeHistory& h, const TensorView& magnitude) {
  auto* observed = static_cast<int32_t*>(h.observed.data);
  const auto* seen = static_cast<const int32_t*>(magnitude.data);
  Kokkos::parallel_for(
      "kvant::observe", Range(exec.space, 0, 1), KOKKOS_LAMBDA(const long) { observed[0] = seen[0] > observed[0] ? seen[0] : observed[0]; });
}

void advance_history(const Exec& exec, const RangeHistory& h, int64_t slot, float margin) {
  float* ring = h.ring.as<float>();
  float* range = h.range.as<float>();
  auto* observed = static_cast<int32_t*>(h.observed.data);
  const long count = h.ring.numel();
  Kokkos::parallel_for(
      "kvant::advance_history", Range(exec.space, 0, 1), KOKKOS_LAMBDA(const long) {
        const bool finite = observed[0] < static_cast<int32_t>(infinity_bits);  // a step that was not is refused elsewhere
        ring[slot] = finite ? float_of(static_cast<uint32_t>(observed[0])) : 0.0f;
        observed[0] = 0;
        float largest = 0.0f;
        for (long i = 0; i < count; ++i) largest = ring[i] > largest ? ring[i] : largest;
        const float next = margin * largest;
        if (next > 0.0f && magnitude_bits(next) < infinity_bits) range[0] = next;
      });
}

void range_in_force(const Exec& exec, const RangeHistory& h, const TensorView& magnitude, const TensorView& to) {
  const float* range = h.range.as<float>();
  const auto* seen = static_cast<const int32_t*>(magnitude.data);
  float* result = to.as<float>();
  Kokkos::parallel_for(
      "kvant::range_in_force", Range(exec.space, 0, 1), KOKKOS_LAMBDA(const long) {
        result[0] = seen[0] >= static_cast<int32_t>(infinity_bits) ? float_of(0x7fc00000u) : range[0];
      });
}

void running_range(const Exec& exec, const RunningMean& mean, const TensorView& magnitudes, bool records, float factor, const TensorView& range) {
  float* sums = mean.sums.as<float>();
  const auto* seen = static_cast<const int32_t*>(magnitudes.data);
  float* result = range.as<float>();
  const long rows = magnitudes.numel();
  Kokkos::parallel_for(
      "kvant::running_range", Range(exec.space, 0, 1), KOKKOS_LAMBDA(const long) {
        double sum = 0;
        bool finite = true;
        for (long r = 0; r < rows; ++r) {
          finite = finite && seen[r] < static_cast<int32_t>(infinity_bits);
          if (finite) sum += static_cast<double>(float_of(static_cast<uint32_t>(seen[r])));
        }
        if (!finite) {
          result[0] = float_of(0x7fc00000u);
          return;
        }
        const float now = rows > 0 ? static_cast<float>(sum / static_cast<double>(rows)) : 0.0f;
        if (records && rows > 0) {
          sums[0] += now;
          sums[1] += 1.0f;
        }
        result[0] = factor * (sums[1] > 0.0f ? sums[0] / sums[1] : now);
      });
}

}  // namespace kvant
