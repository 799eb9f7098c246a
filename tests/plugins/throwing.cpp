// Misbehaves in one of its entries, as the build says.
#include "base/kokkos.hpp"
#include "sample.hpp"

#include <stdexcept>

namespace {

struct Thrower : Sample {
  Thrower() { throw std::runtime_error("the table is not sorted"); }
};

}  // namespace

KVANT_PLUGIN_RECORD(kvant::plugin::provide<Sample>("test_throwing_first"),
                    kvant::plugin::provide<Thrower>("test_throwing"))

#if defined(TEST_THROW_IN_REGISTER)  // what it has made by then is destroyed in time, too
static Kokkos::View<float*, kvant::MemSpace> table;
#endif

#if defined(TEST_THROW_IN_QUERY)
extern "C" const KvantPluginRecord* kvant_plugin_query(void) { throw 42; }
#else
KVANT_PLUGIN_QUERY()
#endif

#if defined(TEST_THROW_IN_REGISTER)
extern "C" void kvant_plugin_register(void* host) {
  table = Kokkos::View<float*, kvant::MemSpace>("kvant::test::table", 16);
  static_cast<kvant::plugin::Host*>(host)->add(kvant::plugin::provide<Sample>("test_throwing_first"));
  throw std::runtime_error("no memory for the table");
}
#elif defined(TEST_UNANNOUNCED)
KVANT_PLUGIN_REGISTER(kvant::plugin::provide<Sample>("test_throwing_first"),
                      kvant::plugin::provide<Sample>("test_surprise"))
#else
KVANT_PLUGIN_REGISTER(kvant::plugin::provide<Sample>("test_throwing_first"),
                      kvant::plugin::provide<Thrower>("test_throwing"))
#endif

KVANT_PLUGIN_CLOSE()
