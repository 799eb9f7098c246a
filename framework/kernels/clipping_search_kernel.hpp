// Kernel of clipping_search.hpp, a template on the format.
#pragma once

#include "kernels/clipping_search.hpp"
#include "kernels/detail/tile_span.hpp"

namespace kvant {
namespace clipping_detail {

constexpr long chunk = 4096;

/// Checks the job; the number of chunks of a tile.
long check(const ClippingSearch& job);

struct Candidates {
  int count;
  float step;
  KOKKOS_INLINE_FUNCTION float range(float largest, int k) const {
    return largest * (1.0f - step * static_cast<float>(k));
  }
};

template <class Format>
KOKKOS_INLINE_FUNCTION double squared_error(const quantize_detail::TileLaw& law, float range, const float* v, long n) {
  const quantize_detail::TileScale s = quantize_detail::tile_scale(law, -range, range);
  double sum = 0;
  for (long i = 0; i < n; ++i) {
    const auto code = quantize_detail::careful_code<Format>(law, v[i], s.scale, s.divisor, 0.0f, 0.0f);
    const double e =
        static_cast<double>(Format::decode(code)) * static_cast<double>(s.scale) - static_cast<double>(v[i]);
    sum += e * e;
  }
  return sum;
}

/// Index of the smallest of `count` sums, each of `chunks` parts that lie `chunks` apart from the next one's; the first
/// of equals.
KOKKOS_INLINE_FUNCTION int smallest(const double* parts, int count, long chunks, long apart) {
  int best = 0;
  double least = 0;
  for (int k = 0; k < count; ++k) {
    double sum = 0;
    for (long i = 0; i < chunks; ++i) sum += parts[k * apart + i];
    if (k == 0 || sum < least) {
      best = k;
      least = sum;
    }
  }
  return best;
}

template <class Format>
KOKKOS_INLINE_FUNCTION int best_of_tile(const quantize_detail::TileLaw& law, const Candidates& candidates,
                                        float largest, const float* v, long n) {
  int best = 0;
  double least = 0;
  for (int k = 0; k < candidates.count; ++k) {
    const double sum = squared_error<Format>(law, candidates.range(largest, k), v, n);
    if (k == 0 || sum < least) {
      best = k;
      least = sum;
    }
  }
  return best;
}

}  // namespace clipping_detail

template <NumericFormat Format>
void search_clipping(const Exec& exec, const ClippingSearch& job) {
  namespace detail = clipping_detail;
  const long chunks = detail::check(job);
  const long tiles = job.range.numel(), n = tiles == 0 ? 0 : job.values.numel() / tiles;
  if (job.values.numel() == 0) return;
  quantize_detail::TileLaw law;
  law.law = job.law;
  const detail::Candidates candidates{job.candidates, (1.0f - job.lowest) / static_cast<float>(job.candidates - 1)};
  const float *values = job.values.as<float>(), *largest = job.largest.as<float>();
  const auto* counts = static_cast<const int32_t*>(job.counts.data);
  float* range = job.range.as<float>();
  if (chunks == 1) {
    Kokkos::parallel_for(
        "kvant::search_clipping", Range(exec.space, 0, tiles), KOKKOS_LAMBDA(const long t) {
          const long count = counts == nullptr ? n : counts[t];
          const int best = detail::best_of_tile<Format>(law, candidates, largest[t], values + t * n, count);
          range[t] = candidates.range(largest[t], best);
        });
    return;
  }
  auto* parts = static_cast<double*>(job.workspace);
  Kokkos::parallel_for(
      "kvant::measure_clipping", Range(exec.space, 0, tiles * chunks * candidates.count),
      KOKKOS_LAMBDA(const long item) {
        const long t = item / chunks % tiles, c = item % chunks, k = item / chunks / tiles;
        const long begin = c * detail::chunk, left = (counts == nullptr ? n : counts[t]) - begin;  // negative: no values
        parts[item] =
            detail::squared_error<Format>(law, candidates.range(largest[t], static_cast<int>(k)),
                                          values + t * n + begin, left < detail::chunk ? left : detail::chunk);
      });
  Kokkos::parallel_for(
      "kvant::choose_clipping", Range(exec.space, 0, tiles), KOKKOS_LAMBDA(const long t) {
        const int best = detail::smallest(parts + t * chunks, candidates.count, chunks, tiles * chunks);
        range[t] = candidates.range(largest[t], best);
      });
}

}  // namespace kvant
