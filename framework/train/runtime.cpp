#include "train/runtime.hpp"

#include "base/kokkos.hpp"
#include "base/log.hpp"
#include "comm/strategy.hpp"
#include "kernels/gemm.hpp"
#include "kernels/isa/isa.hpp"
#include "plugin/loader.hpp"

#include <csignal>
#include <unistd.h>

namespace kvant::train {
namespace {

struct KokkosSession {
  explicit KokkosSession(int threads) {
    Kokkos::InitializationSettings settings;
    if (threads > 0) settings.set_num_threads(threads);
    settings.set_disable_warnings(true);  // its advice on thread binding is for whole nodes, and would be on every run's first line
    Kokkos::initialize(settings);
  }
  ~KokkosSession() { Kokkos::finalize(); }
};

struct PluginSession {
  ~PluginSession() { plugin::shut_down(); }
};

volatile std::sig_atomic_t stop_signal = 0;

void on_signal(int number) {
  if (stop_signal != 0) _exit(128 + number);
  stop_signal = number;
}

}  // namespace

struct Runtime::Inside {
  comm::MpiSession mpi;
  comm::Communicator world;
  KokkosSession kokkos;
  Exec exec;
  PluginSession plugins;

  explicit Inside(int threads) : world(comm::Communicator::world()), kokkos(threads) { comm::register_builtin_strategies(); }
};

Runtime::Runtime(int threads) : inside_(std::make_unique<Inside>(threads)) { (void)chosen_isa(); }
Runtime::~Runtime() = default;

const Exec& Runtime::exec() const { return inside_->exec; }
comm::Communicator& Runtime::world() { return inside_->world; }
int Runtime::threads() const { return inside_->exec.space.concurrency(); }

std::string Runtime::describe() const {
  return fmt::format("{}, {} thread{}, {}, f32 by {}, {}", ExecSpace::name(), threads(), threads() == 1 ? "" : "s", name_of(chosen_isa()),
                     kvant::describe(chosen_float_gemm()), comm::MpiSession::library());
}

void Runtime::log_description() const {
  log::info("{}", describe());
  if (const std::string slow = remark(chosen_float_gemm()); !slow.empty()) log::warning("{}", slow);
}

StopSignal::StopSignal() {
  stop_signal = 0;
  struct sigaction action = {};
  action.sa_handler = on_signal;
  sigaction(SIGINT, &action, nullptr);
  sigaction(SIGTERM, &action, nullptr);
}

StopSignal::~StopSignal() {
  signal(SIGINT, SIG_DFL);
  signal(SIGTERM, SIG_DFL);
}

int StopSignal::received() { return stop_signal; }

}  // namespace kvant::train
