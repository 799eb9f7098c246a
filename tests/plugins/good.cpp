// A plugin as it should be: two objects, one of which tells the test when it dies.
#include "sample.hpp"

namespace {

struct Mortal : Sample {
  ~Mortal() override { setenv("KVANT_TEST_DESTROYED", KVANT_PLUGIN_NAME, 1); }
};

}  // namespace

KVANT_PLUGIN(kvant::plugin::provide<Sample>("test_good"), kvant::plugin::provide<Mortal>("test_mortal"))
