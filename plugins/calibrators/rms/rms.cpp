// rms,f: the range is [-m, m] with m = f·sqrt(mean x²) over what shares a scale. Sums are in double precision, by
// chunks of a fixed size that are added in order.
#include "base/error.hpp"
#include "base/kokkos.hpp"
#include "numerics/bf16.hpp"
#include "plugin/plugin.hpp"
#include "quant/calibrator.hpp"
#include "tensor/arena.hpp"

namespace {

using namespace kvant;
using namespace kvant::quant;

constexpr long chunk = 4096;

/// How a square is rounded before it is added.
enum class Square { exact, f32, bf16 };

KOKKOS_INLINE_FUNCTION double square_of(float v, Square square) {
  if (square == Square::exact) return static_cast<double>(v) * static_cast<double>(v);
  const float rounded = square == Square::bf16 ? to_float(to_bf16(v * v)) : v * v;
  return rounded < 0x1p-126f ? 0.0
                             : static_cast<double>(rounded);  // flushed, as where the reference's numbers come from
}

KOKKOS_INLINE_FUNCTION double sum_of_squares(const float* v, long n, Square square) {
  double sum = 0;
  for (long i = 0; i < n; ++i) sum += square_of(v[i], square);
  return sum;
}

KOKKOS_INLINE_FUNCTION float range_of(const double* parts, long chunks, long n, float factor, Square square) {
  if (n == 0) return 0.0f;
  double sum = 0;
  for (long c = 0; c < chunks; ++c) sum += parts[c];
  const double mean = sum / static_cast<double>(n);
  if (square == Square::exact) return factor * static_cast<float>(Kokkos::sqrt(mean));
  if (square == Square::f32) return factor * Kokkos::sqrt(static_cast<float>(mean));
  const auto narrow = [](float v) { return to_float(to_bf16(v)); };  // bfloat16 after every operation
  return narrow(narrow(factor) * narrow(Kokkos::sqrt(narrow(static_cast<float>(mean)))));
}

class RootMeanSquare final : public RangeSearch {
 public:
  explicit RootMeanSquare(float factor) : factor_(factor) {}

  void find(const Exec& exec, const RangeJob& job) const override {
    const long rows = job.values.shape[0], n = job.values.cols(), chunks = (n + chunk - 1) / chunk;
    ArenaScope workspace(job.arena);
    auto* parts =
        static_cast<double*>(job.arena.allocate_bytes(sizeof(double) * static_cast<std::size_t>(rows * chunks)));
    const Square square = !job.law.reference_guard                              ? Square::exact
                          : job.law.input_arithmetic && job.type == DType::bf16 ? Square::bf16
                                                                                : Square::f32;
    const float* values = job.values.as<float>();
    const auto* own = static_cast<const int32_t*>(job.counts.data);
    float* ranges = job.ranges.as<float>();
    Kokkos::parallel_for(
        "kvant::rms_parts", Range(exec.space, 0, rows * chunks), KOKKOS_LAMBDA(const long i) {
          const long begin = i % chunks * chunk, left = (own == nullptr ? n : own[i / chunks]) - begin;  // negative: no values
          parts[i] = sum_of_squares(values + i / chunks * n + begin, left < chunk ? left : chunk, square);
        });
    const float factor = factor_;
    Kokkos::parallel_for(
        "kvant::rms_ranges", Range(exec.space, 0, rows),
        KOKKOS_LAMBDA(const long r) { ranges[r] = range_of(parts + r * chunks, chunks, own == nullptr ? n : own[r], factor, square); });
  }
  bool takes_counts() const override { return true; }

 private:
  float factor_;
};

class Rms final : public Calibrator {
 public:
  std::string description() const override { return "rms,f: the range f·sqrt(mean x²), f > 0 (7, say)"; }

  Calibration calibrate(std::span<const float> arguments) const override {
    if (arguments.size() != 1) refuse("It has {} arguments.", arguments.size());
    if (!(arguments[0] > 0)) refuse("The factor is {}.", arguments[0]);
    Calibration calibration;
    calibration.search = std::make_shared<RootMeanSquare>(arguments[0]);
    return calibration;
  }
};

}  // namespace

KVANT_PLUGIN(kvant::plugin::provide<Rms>("rms"))
