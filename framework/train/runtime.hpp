// Room train: the step loop and what it stands on. This header: the order in which a process comes up and goes down,
//   MPI, Kokkos, plugins … plugin objects, Kokkos, MPI,
// whatever ends the program: normal end, an error, a signal.
#pragma once

#include "comm/communicator.hpp"

#include <memory>

namespace kvant {
struct Exec;
}

namespace kvant::train {

class Runtime {
 public:
  /// threads: of the execution space on the host; 0 = what OMP_NUM_THREADS or the machine says.
  explicit Runtime(int threads = 0);
  ~Runtime();
  Runtime(const Runtime&) = delete;
  Runtime& operator=(const Runtime&) = delete;

  const Exec& exec() const;
  comm::Communicator& world();
  int threads() const;
  /// "OpenMP, 2 threads, avx512vnni, f32 by tiles (avx512), Open MPI v5.0.7, …"
  std::string describe() const;
  /// Logs describe() and, where the library below the f32 products does not use all of this processor, what to set.
  void log_description() const;

 private:
  struct Inside;
  std::unique_ptr<Inside> inside_;
};

/// While it lives, SIGINT, SIGTERM and SIGHUP set a flag instead of ending the process; a second one ends it at once. To be made
/// after the Runtime, since MPI may install handlers of its own.
class StopSignal {
 public:
  StopSignal();
  ~StopSignal();
  StopSignal(const StopSignal&) = delete;
  StopSignal& operator=(const StopSignal&) = delete;
  /// Number of the signal that has come, 0 if none.
  static int received();
};

}  // namespace kvant::train
