// Calls a function that nobody defines: the record is right, the dynamic linker refuses.
#include "sample.hpp"

int function_of_another_version();

namespace {

struct Caller : Sample {
  Caller() { setenv("KVANT_TEST_CALLED", function_of_another_version() > 0 ? "1" : "0", 1); }
};

}  // namespace

KVANT_PLUGIN(kvant::plugin::provide<Caller>("test_undefined_symbol"))
