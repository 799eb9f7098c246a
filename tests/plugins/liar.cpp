// Answers the query with another record than the file holds.
#include "sample.hpp"

KVANT_PLUGIN_RECORD(kvant::plugin::provide<Sample>("test_liar"))
extern "C" const KvantPluginRecord* kvant_plugin_query(void) {
  static KvantPluginRecord other = [] {
    KvantPluginRecord record = kvant_plugin_note.record;
    record.version[0] = '9';
    return record;
  }();
  return &other;
}
KVANT_PLUGIN_REGISTER(kvant::plugin::provide<Sample>("test_liar"))
KVANT_PLUGIN_CLOSE()
