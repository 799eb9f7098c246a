#include "app/kernel_profile.hpp"

#include "base/kokkos.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <map>
#include <vector>

namespace kvant::app {
namespace {

using Clock = std::chrono::steady_clock;

struct Entry {
  int calls = 0;
  double seconds = 0;
};

// Kokkos' hooks are plain functions without a context pointer, so what they write to is of the process.
std::map<std::string, Entry> entries;
std::string current;
Clock::time_point begun;

void begin(const char* name, uint32_t, uint64_t*) {
  current = name;
  begun = Clock::now();
}

void end(uint64_t) {
  Entry& e = entries[current];
  ++e.calls;
  e.seconds += std::chrono::duration<double>(Clock::now() - begun).count();
}

}  // namespace

KernelProfile::KernelProfile() {
  using namespace Kokkos::Tools::Experimental;
  entries.clear();
  set_begin_parallel_for_callback(begin);
  set_end_parallel_for_callback(end);
  set_begin_parallel_reduce_callback(begin);
  set_end_parallel_reduce_callback(end);
  set_begin_parallel_scan_callback(begin);
  set_end_parallel_scan_callback(end);
}

KernelProfile::~KernelProfile() {
  using namespace Kokkos::Tools::Experimental;
  set_begin_parallel_for_callback(nullptr);
  set_end_parallel_for_callback(nullptr);
  set_begin_parallel_reduce_callback(nullptr);
  set_end_parallel_reduce_callback(nullptr);
  set_begin_parallel_scan_callback(nullptr);
  set_end_parallel_scan_callback(nullptr);
}

std::string KernelProfile::table(int steps, double seconds) const {
  std::vector<std::pair<std::string, Entry>> rows(entries.begin(), entries.end());
  std::sort(rows.begin(), rows.end(), [](const auto& a, const auto& b) { return a.second.seconds > b.second.seconds; });
  std::string text;
  double seen = 0;
  for (const auto& [name, entry] : rows) {
    text += fmt::format("  {:<44} {:6} calls {:9.2f} ms/step {:5.1f}%\n", name, entry.calls / steps, 1e3 * entry.seconds / steps, 100 * entry.seconds / seconds);
    seen += entry.seconds;
  }
  return text + fmt::format("  {:<44} {:>12} {:9.2f} ms/step {:5.1f}%\n", "outside of kernels", "", 1e3 * (seconds - seen) / steps, 100 * (seconds - seen) / seconds);
}

}  // namespace kvant::app
