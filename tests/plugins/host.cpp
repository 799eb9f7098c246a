// Loads one plugin, makes its objects and ends in the way that is asked for:
//   host FILE OBJECT normal|error|signal|exit|forgotten
// forgotten: nobody calls plugin::shut_down(), Kokkos' finalize hook does. exit: std::exit() without any shut-down of
// ours.
#include "base/error.hpp"
#include "base/kokkos.hpp"
#include "comm/communicator.hpp"
#include "comm/strategy.hpp"
#include "plugin/loader.hpp"

#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <string>

namespace {

volatile std::sig_atomic_t signalled = 0;

void run(const std::string& file, const std::string& object, const std::string& ending) {
  const kvant::comm::MpiSession mpi;
  kvant::comm::Communicator::world();
  const Kokkos::ScopeGuard kokkos;
  struct ShutDown {
    bool active;
    ~ShutDown() {
      if (active) kvant::plugin::shut_down();
    }
  } const guard{ending != "forgotten"};

  kvant::plugin::load(file);
  kvant::plugin::Registry<kvant::comm::CommStrategy>::get(object);
  if (ending == "error") kvant::fail("An error after the plugin was loaded.");
  if (ending == "exit") std::exit(7);
  if (ending == "signal") std::raise(SIGTERM);
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 4) return 64;
  std::signal(SIGTERM, [](int) { signalled = 1; });
  try {
    run(argv[1], argv[2], argv[3]);
  } catch (const kvant::Error& error) {
    std::fprintf(stderr, "%s\n", error.what());
    return static_cast<int>(error.code());
  }
  return static_cast<int>(signalled != 0 ? kvant::ExitCode::interrupted : kvant::ExitCode::success);
}
