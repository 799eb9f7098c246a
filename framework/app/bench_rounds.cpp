#include "app/bench_rounds.hpp"

#include "base/rng.hpp"
#include "kernels/peak.hpp"
#include "numerics/bf16.hpp"

#include <fmt/format.h>

#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <fstream>

namespace kvant::app {
namespace {

/// Value at the fraction q of the sorted list.
double quantile(std::vector<double> v, double q) {
  std::sort(v.begin(), v.end());
  return v[std::min(v.size() - 1, static_cast<std::size_t>(q * static_cast<double>(v.size())))];
}

/// CPU seconds that the whole machine was busy, from /proc/stat, and that this process took.
struct CpuTime {
  double machine = 0, mine = 0;

  static CpuTime now() {
    CpuTime t;
    std::ifstream stat("/proc/stat");
    std::string word;
    double user = 0, nice = 0, system = 0, idle = 0, wait = 0, interrupts = 0, soft = 0;
    if (stat >> word >> user >> nice >> system >> idle >> wait >> interrupts >> soft)
      t.machine = (user + nice + system + interrupts + soft) / static_cast<double>(sysconf(_SC_CLK_TCK));
    rusage usage{};
    getrusage(RUSAGE_SELF, &usage);
    for (const timeval& v : {usage.ru_utime, usage.ru_stime}) t.mine += static_cast<double>(v.tv_sec) + 1e-6 * static_cast<double>(v.tv_usec);
    return t;
  }
  /// What other processes took in between (0 where the system does not say).
  static double others(const CpuTime& before, const CpuTime& after) {
    return std::max(0.0, after.machine - before.machine - (after.mine - before.mine));
  }
};

}  // namespace

Filled::Filled(DType dtype, const Shape& shape, uint64_t seed) : bytes("kvant::bench", static_cast<std::size_t>(shape.numel()) * size_of(dtype) + 64) {
  const auto host = Kokkos::create_mirror_view(bytes);
  const auto n = static_cast<std::size_t>(shape.numel());
  for (std::size_t i = 0; i < n; ++i) {
    const uint32_t r = philox(seed, 0, i / 4).word[i % 4];
    const float v = 2.0f * uniform01(r) - 1.0f;
    if (dtype == DType::f32) reinterpret_cast<float*>(host.data())[i] = v;
    else if (dtype == DType::bf16) reinterpret_cast<bf16_t*>(host.data())[i] = to_bf16(v);
    else host.data()[i] = static_cast<char>((r & 7u) == 7u ? r >> 24 & 0x77u : r >> 24 & 0xf7u);  // no NaN among fp8 codes
  }
  Kokkos::deep_copy(bytes, host);
  view = make_view(bytes.data(), dtype, shape, exec_is_host ? MemorySpace::host : MemorySpace::device);
}

void BenchRounds::compare(const std::string& title, std::vector<Variant>& variants) {
  fmt::print("\n{}\n", title);
  std::vector<int> repeats;
  for (Variant& v : variants) {
    once(v, 1);  // caches, arena
    repeats.push_back(std::max(1, static_cast<int>(20e-3 / std::max(once(v, 1), 1e-6))));
  }
  std::vector<std::vector<double>> quiet, disturbed;
  for (int round = 0; static_cast<int>(quiet.size()) < rounds_ && round < 4 * rounds_; ++round) {
    const CpuTime before = CpuTime::now();
    const auto begin = std::chrono::steady_clock::now();
    std::vector<double> seconds;
    for (std::size_t i = 0; i < variants.size(); ++i) seconds.push_back(once(variants[i], repeats[i]));
    const double wall = std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
    (CpuTime::others(before, CpuTime::now()) > 0.1 * wall ? disturbed : quiet).push_back(std::move(seconds));
  }
  const std::size_t missing = static_cast<std::size_t>(rounds_) - quiet.size();
  if (missing > 0) fmt::print("  ({} of {} rounds were disturbed by other processes; repeat on a quiet machine)\n", missing, rounds_);
  quiet.insert(quiet.end(), disturbed.begin(), disturbed.begin() + static_cast<std::ptrdiff_t>(std::min(missing, disturbed.size())));
  for (const std::vector<double>& round : quiet)
    for (std::size_t i = 0; i < variants.size(); ++i) variants[i].seconds.push_back(round[i]);
  for (const Variant& v : variants) print(v, variants.front());
}

double BenchRounds::once(Variant& v, int repeats) {
  exec_.space.fence("kvant::bench");
  const auto begin = std::chrono::steady_clock::now();
  for (int i = 0; i < repeats; ++i) v.run();
  exec_.space.fence("kvant::bench");
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count() / repeats;
}

void BenchRounds::print(const Variant& v, const Variant& base) const {
  std::vector<double> ratio;
  for (std::size_t i = 0; i < v.seconds.size(); ++i) ratio.push_back(v.work / v.seconds[i] / (base.work / base.seconds[i]));
  const double rate = v.work / quantile(v.seconds, 0.5);
  const bool operations = work_ == Work::operations;
  const std::string share = exec_is_host && operations ? fmt::format("{:5.0f}% of peak", 100.0 * rate / measured_peak_ops(v.arithmetic, threads_)) : "";
  fmt::print("  {:<36} {:8.1f} {} {}   {:5.2f} ({:.2f}-{:.2f})\n", v.name, rate * 1e-9, operations ? "Gop/s" : "GB/s", share, quantile(ratio, 0.5),
             quantile(ratio, 0.1), quantile(ratio, 0.9));
}

}  // namespace kvant::app
