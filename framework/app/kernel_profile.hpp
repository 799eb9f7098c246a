// Where a step's time goes, by kernel label: Kokkos' own profiling hooks, no tool library needed.
#pragma once

#include <string>

namespace kvant::app {

/// While it lives, every labelled kernel is timed (each one fenced by the hook's nature on host backends: they are synchronous
/// there; on devices the times are those of the launches).
class KernelProfile {
 public:
  KernelProfile();
  ~KernelProfile();
  KernelProfile(const KernelProfile&) = delete;
  KernelProfile& operator=(const KernelProfile&) = delete;

  /// The slowest labels with calls, milliseconds per step and share of `seconds`, one line each.
  std::string table(int steps, double seconds) const;
};

}  // namespace kvant::app
