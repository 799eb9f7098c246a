// Has the three entries but no note: a plugin that was linked by hand.
#include "sample.hpp"

extern "C" const KvantPluginRecord* kvant_plugin_query(void) { return nullptr; }
KVANT_PLUGIN_REGISTER(kvant::plugin::provide<Sample>("test_no_record"))
KVANT_PLUGIN_CLOSE()
