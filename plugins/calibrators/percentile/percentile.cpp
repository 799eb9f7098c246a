// percentile,p: the range is [-m, m] where m is the smallest |x| that at least p per cent of what shares a scale do not
// exceed. Exact: magnitudes order like their bits, which are counted eight at a time.
#include "base/error.hpp"
#include "base/kokkos.hpp"
#include "numerics/bits.hpp"
#include "plugin/plugin.hpp"
#include "quant/calibrator.hpp"
#include "tensor/arena.hpp"

namespace {

using namespace kvant;
using namespace kvant::quant;

constexpr long chunk = 4096;
constexpr int digits = 4;  ///< of 8 bits

/// Counts the digit at `shift` of the magnitudes whose higher digits are those of `prefix`.
KOKKOS_INLINE_FUNCTION void count_digits(const float* v, long n, uint32_t prefix, int shift, int32_t* counts) {
  for (long i = 0; i < n; ++i) {
    const uint32_t magnitude = magnitude_bits(v[i]);
    const bool same = shift == 24 || magnitude >> (shift + 8) == prefix >> (shift + 8);
    if (same) Kokkos::atomic_inc(counts + (magnitude >> shift & 255u));
  }
}

/// Finds the digit in which the rank lies, and what is left of the rank below it.
KOKKOS_INLINE_FUNCTION void choose_digit(const int32_t* counts, int shift, int32_t* rank, uint32_t* prefix) {
  int32_t left = *rank;
  uint32_t digit = 0;
  while (digit < 255 && left > counts[digit]) left -= counts[digit++];
  *rank = left;
  *prefix |= digit << shift;
}

/// 1 … n: of the values in order the one that is asked for; 0 of none.
KOKKOS_INLINE_FUNCTION int32_t rank_of(double share, long n) {
  const double rank = Kokkos::ceil(share * static_cast<double>(n));
  const double least = n > 0 ? 1.0 : 0.0, most = static_cast<double>(n);
  return static_cast<int32_t>(rank < least ? least : rank > most ? most : rank);
}

class Percentile final : public RangeSearch {
 public:
  explicit Percentile(float percent) : percent_(percent) {}

  void find(const Exec& exec, const RangeJob& job) const override {
    const long rows = job.values.shape[0], n = job.values.cols(), chunks = (n + chunk - 1) / chunk;
    ArenaScope workspace(job.arena);
    auto* counts = static_cast<int32_t*>(job.arena.allocate(DType::i32, {rows, 256}).data);
    auto* ranks = static_cast<int32_t*>(job.arena.allocate(DType::i32, {rows}).data);
    auto* prefixes = static_cast<uint32_t*>(job.ranges.data);  // grow digit by digit into the result
    const float* values = job.values.as<float>();
    const auto* own = static_cast<const int32_t*>(job.counts.data);
    const double share = static_cast<double>(percent_) / 100.0;
    Kokkos::parallel_for(
        "kvant::percentile_start", Range(exec.space, 0, rows), KOKKOS_LAMBDA(const long r) {
          ranks[r] = rank_of(share, own == nullptr ? n : own[r]);
          prefixes[r] = 0;
        });
    for (int digit = digits - 1; digit >= 0; --digit) {
      const int shift = 8 * digit;
      Kokkos::parallel_for(
          "kvant::percentile_reset", Range(exec.space, 0, rows * 256), KOKKOS_LAMBDA(const long i) { counts[i] = 0; });
      Kokkos::parallel_for(
          "kvant::percentile_count", Range(exec.space, 0, rows * chunks), KOKKOS_LAMBDA(const long i) {
            const long r = i / chunks, begin = i % chunks * chunk, left = (own == nullptr ? n : own[r]) - begin;
            count_digits(values + r * n + begin, left < chunk ? left : chunk, prefixes[r], shift, counts + r * 256);
          });
      Kokkos::parallel_for(
          "kvant::percentile_choose", Range(exec.space, 0, rows),
          KOKKOS_LAMBDA(const long r) { choose_digit(counts + r * 256, shift, ranks + r, prefixes + r); });
    }
  }
  bool takes_counts() const override { return true; }

 private:
  float percent_;
};

class PercentileCalibrator final : public Calibrator {
 public:
  std::string description() const override {
    return "percentile,p: the smallest |x| that p per cent of the values do not exceed, 0 < p <= 100";
  }

  Calibration calibrate(std::span<const float> arguments) const override {
    if (arguments.size() != 1) refuse("It has {} arguments.", arguments.size());
    if (!(arguments[0] > 0 && arguments[0] <= 100)) refuse("{} is no percentage of values.", arguments[0]);
    Calibration calibration;
    calibration.search = std::make_shared<Percentile>(arguments[0]);
    return calibration;
  }
};

}  // namespace

KVANT_PLUGIN(kvant::plugin::provide<PercentileCalibrator>("percentile"))
