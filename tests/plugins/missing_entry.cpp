// Does not export kvant_plugin_register.
#include "sample.hpp"

KVANT_PLUGIN_RECORD(kvant::plugin::provide<Sample>("test_missing_entry"))
KVANT_PLUGIN_QUERY()
KVANT_PLUGIN_CLOSE()
