#include "kernels/group_columns.hpp"

#include "base/error.hpp"
#include "base/kokkos.hpp"
#include "numerics/bits.hpp"

namespace kvant {

void gather_group_columns(const Exec& exec, const GroupColumns& job, int64_t group) {
  const long rows = job.x.rows(), cols = job.x.cols();
  require(job.x.dtype == DType::f32 && job.x.contiguous() && job.offsets.dtype == DType::i32 && group >= 0 && group + 1 < job.offsets.numel() &&
              job.values.dtype == DType::f32 && job.values.contiguous() && job.values.rows() == cols && job.values.cols() == rows &&
              job.counts.dtype == DType::i32 && job.counts.numel() == cols && job.largest.dtype == DType::f32 && job.largest.numel() == cols,
          "Group {} of a matrix of shape {} does not go to values of shape {}.", group, to_string(job.x.shape), to_string(job.values.shape));
  const auto* offsets = static_cast<const int32_t*>(job.offsets.data) + group;
  const float* x = job.x.as<float>();
  float *values = job.values.as<float>(), *largest = job.largest.as<float>();
  auto* counts = static_cast<int32_t*>(job.counts.data);
  Kokkos::parallel_for(
      "kvant::gather_group_columns", Range(exec.space, 0, rows * cols), KOKKOS_LAMBDA(const long i) {
        const long r = offsets[0] + i / cols, c = i % cols;
        if (r < offsets[1]) values[c * rows + i / cols] = x[r * cols + c];
      });
  Kokkos::parallel_for(
      "kvant::group_column_maxima", Range(exec.space, 0, cols), KOKKOS_LAMBDA(const long c) {
        const long count = offsets[1] - offsets[0];
        uint32_t most = 0;
        for (long i = 0; i < count; ++i) {
          const uint32_t bits = magnitude_bits(values[c * rows + i]);
          most = bits > most ? bits : most;
        }
        counts[c] = static_cast<int32_t>(count);
        largest[c] = float_of(most);
      });
}

}  // namespace kvant
