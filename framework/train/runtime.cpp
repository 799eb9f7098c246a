#include "train/runtime.hpp"

#include "base/error.hpp"
#include "base/kokkos.hpp"
#include "base/log.hpp"
#include "comm/strategy.hpp"
#include "kernels/gemm.hpp"
#include "kernels/isa/isa.hpp"
#include "plugin/loader.hpp"

#include <csignal>
#include <cstdlib>
#include <unistd.h>

namespace kvant::train {
namespace {

constexpr int most_threads = 512;  // of Kokkos' OpenMP; beyond, it writes past its table

/// OMP_NUM_THREADS is "4" or a list for nested regions, "4,2"; OpenMP takes anything else for silence.
void check_thread_variable() {
  const char* text = std::getenv("OMP_NUM_THREADS");
  if (text == nullptr || *text == '\0') return;
  char* end = nullptr;
  const long first = std::strtol(text, &end, 10);
  if (end == text || (*end != '\0' && *end != ',') || first < 1 || first > most_threads)
    refuse("The environment variable OMP_NUM_THREADS is \"{}\"; a number of threads from 1 to {} is expected.", text, most_threads);
}

/// What lies below MPI may take SIGHUP for itself. While this lives the signal waits; then its disposition is what it was, and a
/// signal that came meanwhile acts.
class HeldHangUp {
 public:
  HeldHangUp() {
    sigset_t set;
    sigemptyset(&set);
    sigaddset(&set, SIGHUP);
    pthread_sigmask(SIG_BLOCK, &set, &mask_);
    sigaction(SIGHUP, nullptr, &before_);
  }
  ~HeldHangUp() {
    sigaction(SIGHUP, &before_, nullptr);
    pthread_sigmask(SIG_SETMASK, &mask_, nullptr);
  }
  HeldHangUp(const HeldHangUp&) = delete;
  HeldHangUp& operator=(const HeldHangUp&) = delete;

 private:
  sigset_t mask_{};
  struct sigaction before_ = {};
};

struct KokkosSession {
  explicit KokkosSession(int threads) {
    check_thread_variable();
    if (threads > most_threads) refuse("{} threads were asked for; 1 to {} are possible.", threads, most_threads);
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

/// The last one: a terminal that was closed. A library below MPI would otherwise take it for its own messages.
constexpr int stopping_signals[] = {SIGINT, SIGTERM, SIGHUP};

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

Runtime::Runtime(int threads) {
  const HeldHangUp held;
  inside_ = std::make_unique<Inside>(threads);
  (void)chosen_isa();
}
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
  for (const int number : stopping_signals) {
    struct sigaction before = {};
    sigaction(number, nullptr, &before);
    // nohup means it; that a shell ignores SIGINT for what it starts in the background is no wish of the user's.
    if (number != SIGHUP || before.sa_handler != SIG_IGN) sigaction(number, &action, nullptr);
  }
}

StopSignal::~StopSignal() {
  for (const int number : stopping_signals) {
    struct sigaction before = {};
    sigaction(number, nullptr, &before);
    if (before.sa_handler == on_signal) signal(number, SIG_DFL);
  }
}

int StopSignal::received() { return stop_signal; }

}  // namespace kvant::train
