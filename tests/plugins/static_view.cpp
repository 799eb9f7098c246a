// Keeps a table in a static View (D35): Kokkos ends the process with an error if it is freed after Kokkos::finalize.
#include "base/kokkos.hpp"
#include "sample.hpp"

namespace {

Kokkos::View<float*, kvant::MemSpace> table;

struct WithTable : Sample {
  WithTable() { table = Kokkos::View<float*, kvant::MemSpace>("kvant::test::table", 16); }
};

}  // namespace

KVANT_PLUGIN(kvant::plugin::provide<WithTable>("test_static_view"))
