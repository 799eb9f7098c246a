#include "kernels/tile_values.hpp"

#include "kernels/detail/tile_span.hpp"
#include "tensor/dispatch.hpp"

namespace kvant {
namespace tile_values_detail {
namespace {

using quantize_detail::make_grid;
using quantize_detail::Source;
using quantize_detail::TileGrid;

template <class T>
void gather(const Exec& exec, const TileJob& job, float* values) {
  const TileGrid grid = make_grid(job.x.shape, job.tile, job.multiplier.data == nullptr && job.x.contiguous());
  Source<T> in;
  in.x = static_cast<const T*>(job.x.data);
  in.stride = job.x.contiguous() ? grid.cols : job.x.stride[0];
  in.multiplier = job.multiplier.data == nullptr ? nullptr : job.multiplier.as<float>();
  in.along = job.multiplier.data == nullptr ? Along::tensor : job.multiplier_along;
  Kokkos::parallel_for(
      "kvant::gather_tiles", Range(exec.space, 0, job.x.numel()), KOKKOS_LAMBDA(const long i) {
        const long r = i / grid.cols, c = i % grid.cols;
        const float* factors = in.column_factors(0);
        const long tile = grid.band_of(r) * grid.across + c / grid.tile_cols;
        const long within = grid.within_band(r) * grid.tile_cols + c % grid.tile_cols;
        values[tile * grid.band_rows * grid.tile_cols + within] =
            to_float(in.row(r)[c]) * (factors == nullptr ? in.row_factor(r) : factors[c]);
      });
}

template <class Reference, class Result>
void store_masked(const Exec& exec, const TileMask& mask, const TensorView& src, const TensorView& dst,
                  bool accumulate) {
  const TileGrid grid = make_grid(dst.shape, mask.tile, true);
  const auto* reference = mask.reference.as<Reference>();
  const auto* values = src.as<float>();
  auto* results = dst.as<Result>();
  const float *high = mask.high.as<float>(), *low = mask.low.data == nullptr ? nullptr : mask.low.as<float>();
  const bool one = mask.high.numel() == 1;
  Kokkos::parallel_for(
      "kvant::store_where_unclipped_tiles", Range(exec.space, 0, dst.numel()), KOKKOS_LAMBDA(const long i) {
        const long s = one ? 0 : grid.band_of(i / grid.cols) * grid.across + i % grid.cols / grid.tile_cols;
        const float x = to_float(reference[i]), lowest = low == nullptr ? -high[s] : low[s];
        const float v = lowest <= x && x <= high[s] ? values[i] : 0.0f;
        results[i] = from_float<Result>(accumulate ? to_float(results[i]) + v : v);
      });
}

KOKKOS_INLINE_FUNCTION float settled(float range, float largest, bool reference) {
  if (magnitude_bits(largest) >= infinity_bits)
    return reference && magnitude_bits(range) >= infinity_bits ? range : float_of(0x7fc00000u);
  return reference || (range > 0.0f && largest > 0.0f) ? range : largest;
}

}  // namespace
}  // namespace tile_values_detail

void settle_ranges(const Exec& exec, const TensorView& largest, bool reference, const TensorView& ranges) {
  require(ranges.dtype == DType::f32 && largest.dtype == DType::f32 && ranges.numel() == largest.numel(),
          "{} largest magnitudes do not fit {} ranges.", largest.numel(), ranges.numel());
  float* range = ranges.as<float>();
  const float* magnitude = largest.as<float>();
  Kokkos::parallel_for(
      "kvant::settle_ranges", Range(exec.space, 0, ranges.numel()),
      KOKKOS_LAMBDA(const long i) { range[i] = tile_values_detail::settled(range[i], magnitude[i], reference); });
}

void gather_tiles(const Exec& exec, const TileJob& job, const TensorView& values) {
  const int64_t tiles = tile_count(job.x.shape, job.tile);
  require(
      values.dtype == DType::f32 && values.contiguous() && values.rows() == tiles && values.numel() == job.x.numel(),
      "Values of {} tiles of a tensor of shape {} do not fit a tensor of {} of shape {}.", tiles,
      to_string(job.x.shape), name_of(values.dtype), to_string(values.shape));
  if (job.x.numel() == 0) return;
  dispatch_activation(job.x.dtype, "gather_tiles",
                      [&]<class T>() { tile_values_detail::gather<T>(exec, job, values.as<float>()); });
}

void store_where_unclipped(const Exec& exec, const TileMask& mask, const TensorView& src, const TensorView& dst,
                           bool accumulate) {
  const int64_t tiles = tile_count(dst.shape, mask.tile), bounds = mask.high.numel();
  require(mask.reference.shape == dst.shape && src.shape == dst.shape && src.contiguous() && dst.contiguous() &&
              mask.reference.contiguous(),
          "A gradient of shape {} is masked by a tensor of shape {} into one of shape {}.", to_string(src.shape),
          to_string(mask.reference.shape), to_string(dst.shape));
  require((bounds == tiles || bounds == 1) && (mask.low.data == nullptr || mask.low.numel() == bounds),
          "{} upper and {} lower bounds do not fit {} tiles of a tensor of shape {}.", bounds, mask.low.numel(), tiles,
          to_string(dst.shape));
  if (dst.numel() == 0) return;
  dispatch_activation(mask.reference.dtype, "store_where_unclipped", [&]<class Reference>() {
    if (dst.dtype == DType::f32)
      tile_values_detail::store_masked<Reference, float>(exec, mask, src, dst, accumulate);
    else
      tile_values_detail::store_masked<Reference, bf16_t>(exec, mask, src, dst, accumulate);
  });
}

}  // namespace kvant
