#include "kernels/clipping_search.hpp"

#include "kernels/clipping_search_kernel.hpp"

namespace kvant {
namespace clipping_detail {
namespace {

long chunks_of(const ClippingSearch& job) {
  const long tiles = job.range.numel(), n = tiles == 0 ? 0 : job.values.numel() / tiles;
  return n <= chunk ? 1 : (n + chunk - 1) / chunk;
}

KOKKOS_INLINE_FUNCTION void raise_tile(const float* v, long n, int32_t* largest) {
  const int32_t m = quantize_detail::row_magnitude(v, n, 1.0f, nullptr);
  quantize_detail::raise_shared(&m, 1, largest);
}

}  // namespace

long check(const ClippingSearch& job) {
  require(job.values.dtype == DType::f32 && job.values.contiguous() && job.largest.dtype == DType::f32 &&
              job.range.dtype == DType::f32 && job.largest.numel() == job.range.numel() &&
              (job.values.numel() == 0 || job.values.shape[0] == job.range.numel()),
          "Values of shape {} with maxima of shape {} do not give ranges of shape {}.", to_string(job.values.shape),
          to_string(job.largest.shape), to_string(job.range.shape));
  require(job.counts.data == nullptr || (job.counts.dtype == DType::i32 && job.counts.numel() == job.range.numel()),
          "{} counts do not fit {} ranges.", job.counts.numel(), job.range.numel());
  require(job.candidates >= 2 && job.lowest > 0 && job.lowest < 1,
          "A search over {} candidates from 1 down to {}: at least 2, down to a number between 0 and 1.",
          job.candidates, job.lowest);
  require(job.workspace != nullptr || clipping_workspace_bytes(job) == 0, "The search needs {} bytes of workspace.",
          clipping_workspace_bytes(job));
  return chunks_of(job);
}

}  // namespace clipping_detail

std::size_t clipping_workspace_bytes(const ClippingSearch& job) {
  const long chunks = clipping_detail::chunks_of(job);
  if (chunks <= 1) return 0;
  return sizeof(double) * static_cast<std::size_t>(job.candidates) *
         static_cast<std::size_t>(chunks * job.range.numel());
}

void tile_maxima(const Exec& exec, const TensorView& values, const TensorView& largest) {
  require(values.dtype == DType::f32 && largest.dtype == DType::f32 && values.contiguous() &&
              (values.numel() == 0 || values.shape[0] == largest.numel()),
          "Values of {} of shape {} do not have maxima of shape {}.", name_of(values.dtype), to_string(values.shape),
          to_string(largest.shape));
  constexpr long chunk = clipping_detail::chunk;
  const long tiles = largest.numel(), n = tiles == 0 ? 0 : values.numel() / tiles;
  const float* v = values.as<float>();
  auto* bits = static_cast<int32_t*>(largest.data);
  const long chunks = (n + chunk - 1) / chunk;
  Kokkos::parallel_for(
      "kvant::reset_maxima", Range(exec.space, 0, tiles), KOKKOS_LAMBDA(const long t) { bits[t] = 0; });
  Kokkos::parallel_for(
      "kvant::tile_maxima", Range(exec.space, 0, tiles * chunks), KOKKOS_LAMBDA(const long item) {
        const long t = item / chunks, begin = item % chunks * chunk, left = n - begin;
        clipping_detail::raise_tile(v + t * n + begin, left < chunk ? left : chunk, bits + t);
      });
}

}  // namespace kvant
