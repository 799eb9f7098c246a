// The main of every unit test executable: MPI, then Kokkos, then the tests, and both down again in reverse order.
#include "base/kokkos.hpp"

#include <catch2/catch_session.hpp>
#include <cfenv>
#include <cstdio>
#include <mpi.h>

int main(int argc, char** argv) {
#ifdef KVANT_FPE
  // Before Kokkos starts its threads, which inherit the mask.
  feenableexcept(FE_INVALID | FE_DIVBYZERO);
#endif
  int provided = 0;
  MPI_Init_thread(nullptr, nullptr, MPI_THREAD_FUNNELED, &provided);
  if (provided < MPI_THREAD_FUNNELED) {
    std::fprintf(stderr, "MPI offers thread level %d; the tests need MPI_THREAD_FUNNELED (%d).\n", provided,
                 MPI_THREAD_FUNNELED);
    return 1;
  }
  int result = 1;
  {
    Kokkos::ScopeGuard kokkos;
    result = Catch::Session().run(argc, argv);
  }
  MPI_Finalize();
  return result;
}
