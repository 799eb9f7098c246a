// Keeps a table in a static View (D35): Kokkos ends the process with an error if it is freed after Kokkos::finalize.
#include "base/kokkos.hpp"
#include "sample.hpp"

namespace {

Kokkos::View<float*, kvant::MemSpace> table;

}  // namespace

KVANT_PLUGIN_RECORD(kvant::plugin::provide<Sample>("test_static_view"))
KVANT_PLUGIN_QUERY()
extern "C" void kvant_plugin_register(void* host) {
  table = Kokkos::View<float*, kvant::MemSpace>("kvant::test::table", 16);
  static_cast<kvant::plugin::Host*>(host)->add(kvant::plugin::provide<Sample>("test_static_view"));
}
KVANT_PLUGIN_CLOSE()
