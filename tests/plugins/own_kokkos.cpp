// Stands for a plugin with libkokkoscore.a inside (D33): it defines what only Kokkos' own library may define, visibly
// or, as an archive that was linked with --exclude-libs does, hidden.
#include "sample.hpp"

namespace own {
#ifdef TEST_HIDDEN
[[gnu::used, gnu::visibility("hidden")]]
#endif
void finalize() __asm__("_ZN6Kokkos8finalizeEv");
void finalize() {}
}  // namespace own

KVANT_PLUGIN(kvant::plugin::provide<Sample>("test_own_kokkos"))
