// MPI's return codes as errors.
#pragma once

#include <mpi.h>

namespace kvant::comm::detail {

/// Throws kvant::Error with MPI's own text unless the code is MPI_SUCCESS.
void check_mpi(int code, const char* call);

/// Throws kvant::Error where MPI may not be called from a process that runs threads.
void check_thread_level(int provided);

}  // namespace kvant::comm::detail
