#include "base/error.hpp"
#include "comm/communicator.hpp"
#include "comm/detail/mpi_check.hpp"

#include <pwd.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>

namespace kvant::comm {

namespace {

/// Open MPI gives up, with pages of its own words, where HOME is not set (cron jobs, some containers).
void give_home() {
  if (const char* home = std::getenv("HOME"); home != nullptr && *home != '\0') return;
  const passwd* user = getpwuid(getuid());
  const bool known = user != nullptr && user->pw_dir != nullptr && *user->pw_dir != '\0';
  ::setenv("HOME", known ? user->pw_dir : std::filesystem::temp_directory_path().c_str(), 1);
}

}  // namespace

MpiSession::MpiSession() {
  int initialized = 0, provided = MPI_THREAD_SINGLE;
  detail::check_mpi(MPI_Initialized(&initialized), "MPI_Initialized");
  if (initialized == 0) {
    give_home();
    detail::check_mpi(MPI_Init_thread(nullptr, nullptr, MPI_THREAD_FUNNELED, &provided), "MPI_Init_thread");
    ours_ = true;
  } else {
    detail::check_mpi(MPI_Query_thread(&provided), "MPI_Query_thread");
  }
  // Errors of MPI become sentences of ours instead of an abort of its own.
  detail::check_mpi(MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN), "MPI_Comm_set_errhandler");
  try {
    detail::check_thread_level(provided);
  } catch (...) {
    if (ours_) MPI_Finalize();
    throw;
  }
}

MpiSession::~MpiSession() {
  if (ours_) MPI_Finalize();
}

std::string MpiSession::library() {
  char text[MPI_MAX_LIBRARY_VERSION_STRING] = {};
  int length = 0;
  detail::check_mpi(MPI_Get_library_version(text, &length), "MPI_Get_library_version");
  const std::string all(text, static_cast<std::size_t>(length));
  return all.substr(0, all.find_first_of(",\n"));
}

namespace detail {

void check_mpi(int code, const char* call) {
  if (code == MPI_SUCCESS) return;
  char text[MPI_MAX_ERROR_STRING] = {};
  int length = 0;
  MPI_Error_string(code, text, &length);
  fail("{} failed: {}.", call, std::string(text, static_cast<std::size_t>(length)));
}

void check_thread_level(int provided) {
  if (provided >= MPI_THREAD_FUNNELED) return;
  fail(
      "This MPI ({}) runs at thread level {}, but kernels use threads: MPI_THREAD_FUNNELED ({}) is needed. Use an MPI "
      "that was "
      "built with thread support, or let Kvant initialise it.",
      MpiSession::library(), provided, static_cast<int>(MPI_THREAD_FUNNELED));
}

}  // namespace detail
}  // namespace kvant::comm
