#include "kernels/peak.hpp"

#include "base/error.hpp"
#include "base/kokkos.hpp"
#include "base/log.hpp"
#include "kernels/detail/tile_pool.hpp"
#include "kernels/isa/peak_probe.hpp"

#include <time.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <map>
#include <mutex>
#include <sstream>

namespace kvant {
namespace {

constexpr int most_threads = 1024;

/// CPU time of this thread: what it did not wait for a neighbour.
double thread_seconds() {
  timespec now{};
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
  return static_cast<double>(now.tv_sec) + 1e-9 * static_cast<double>(now.tv_nsec);
}

/// Each worker's best rate over a few windows.
struct ProbeBody {
  isa::PeakProbe probe;
  int64_t rounds;
  double* rate;

  void operator()(long worker) const {
    constexpr int windows = 24;
    double best = 0;
    for (int w = 0; w < windows; ++w) {
      const double begin = thread_seconds();
      const auto operations = static_cast<double>(probe(rounds) * rounds);
      best = std::max(best, operations / std::max(thread_seconds() - begin, 1e-9));
    }
    rate[worker] = best;
  }
};

/// Rounds that take about five milliseconds.
int64_t rounds_of_a_window(isa::PeakProbe probe) {
  int64_t rounds = 8;
  for (double seconds = 0; seconds < 2e-3; rounds *= 4) {
    const double begin = thread_seconds();
    probe(rounds);
    seconds = thread_seconds() - begin;
    if (seconds >= 2e-3) return std::max<int64_t>(1, static_cast<int64_t>(static_cast<double>(rounds) * 5e-3 / seconds));
  }
  return rounds;
}

bool in_integers(DType dtype) { return dtype == DType::i8; }

/// Name of this processor, in one word.
std::string processor() {
  std::ifstream info("/proc/cpuinfo");
  std::string model = "processor";
  for (std::string line; std::getline(info, line);)
    if (line.starts_with("model name")) {
      model = line.substr(std::min(line.find(':') + 2, line.size()));
      break;
    }
  // Virtual machines tell less in the name than in family, model and stepping.
  info.clear();
  info.seekg(0);
  for (std::string line; std::getline(info, line) && !line.empty();)
    for (const char* field : {"cpu family", "model\t", "stepping"})
      if (line.starts_with(field)) model += "_" + line.substr(std::min(line.find(':') + 2, line.size()));
  std::replace_if(model.begin(), model.end(), [](char c) { return c == ' ' || c == '\t'; }, '_');
  return model;
}

std::string host() {
  char name[256] = "host";
  gethostname(name, sizeof(name) - 1);
  return name;
}

std::string key_of(DType dtype, int threads) {
  return host() + " " + processor() + " " + name_of(chosen_isa()) + " " + (in_integers(dtype) ? "int8" : "float32") + " " + std::to_string(threads);
}

/// The number that stands behind the key in the file, or 0.
double read_cached(const std::string& key) {
  std::ifstream file(peak_cache_file());
  double value = 0;
  for (std::string line; std::getline(file, line);)
    if (line.starts_with(key + " ")) std::istringstream(line.substr(key.size() + 1)) >> value;
  return value > 1e8 && value < 1e16 ? value : 0;  // no processor is slower or faster; such a line is measured again
}

void write_cached(const std::string& key, double value) {
  const std::filesystem::path file = peak_cache_file();
  std::error_code error;
  std::filesystem::create_directories(file.parent_path(), error);
  std::ofstream out(file, std::ios::app);  // one short write: lines of several ranks do not mix
  out << key + " " + fmt::format("{:.6g}", value) + "\n" << std::flush;
  if (!out) log::once(log::Level::info, fmt::format("The measured peak of this machine cannot be kept in {}; it is measured again in the next run.", file.string()));
}

}  // namespace

std::string peak_cache_file() {
  const auto variable = [](const char* name) {
    const char* value = std::getenv(name);
    return value == nullptr ? std::filesystem::path() : std::filesystem::path(value);
  };
  std::filesystem::path folder = variable("KVANT_CACHE_DIR");
  if (folder.empty() && !variable("XDG_CACHE_HOME").empty()) folder = variable("XDG_CACHE_HOME") / "kvant";
  if (folder.empty() && !variable("HOME").empty()) folder = variable("HOME") / ".cache" / "kvant";
  if (folder.empty()) folder = std::filesystem::temp_directory_path() / "kvant";
  return (folder / "peak").string();
}

double measure_peak_ops_now(DType dtype, int threads) {
  if (!exec_is_host) fail("The peak of a device cannot be measured here; only processors have a probe.");
  const detail::HostExec space;
  require(threads >= 1 && threads <= std::min(space.concurrency(), most_threads),
          "The peak of {} threads was asked for; this process has {}.", threads, std::min(space.concurrency(), most_threads));
  const isa::PeakProbe probe = in_integers(dtype) ? isa::int8_peak_probe(chosen_isa()) : isa::float_peak_probe(chosen_isa());
  double rate[most_threads] = {};
  using Policy = Kokkos::RangePolicy<detail::HostExec, Kokkos::IndexType<long>, Kokkos::Schedule<Kokkos::Static>>;
  Kokkos::parallel_for("kvant::peak_probe", Policy(space, 0, threads, Kokkos::ChunkSize(1)), ProbeBody{probe, rounds_of_a_window(probe), rate});
  double sum = 0;
  for (int i = 0; i < threads; ++i) sum += rate[i];
  return sum;
}

double measured_peak_ops(DType dtype, int threads) {
  static std::mutex mutex;
  static std::map<std::string, double> known;
  const std::lock_guard lock(mutex);
  const std::string key = key_of(dtype, threads), place = peak_cache_file() + "\n" + key;
  if (const auto found = known.find(place); found != known.end()) return found->second;
  double value = read_cached(key);
  if (value == 0) {
    value = measure_peak_ops_now(dtype, threads);
    write_cached(key, value);
  }
  return known[place] = value;
}

}  // namespace kvant
