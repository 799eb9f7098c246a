// Says in a sentence that this processor is too old, instead of an illegal instruction. The check stands in the
// program's pre-initialisers, which run before the constructors of any library, since those of libkvant are compiled
// for the baseline already. The functions here are compiled for every x86-64 processor and call the C library alone.
#if defined(__x86_64__)
#include <string.h>
#include <unistd.h>

// The level that the compiler's flags ask for, whatever name -march was given.
#if defined(__AVX512BW__) && defined(__AVX512VL__)
#define KVANT_LEVEL "x86-64-v4"
#elif defined(__AVX2__) && defined(__FMA__)
#define KVANT_LEVEL "x86-64-v3"
#elif defined(__SSE4_2__)
#define KVANT_LEVEL "x86-64-v2"
#else
#define KVANT_LEVEL "x86-64"
#endif

namespace {

[[gnu::target("arch=x86-64")]] void say(const char* text) {
  if (write(STDERR_FILENO, text, strlen(text)) < 0) _exit(1);
}

[[gnu::target("arch=x86-64")]] void check_baseline(int, char**, char**) {
  __builtin_cpu_init();
  if (__builtin_cpu_supports(KVANT_LEVEL)) return;
  say("kvant: this processor lacks instructions of " KVANT_LEVEL
      ", which this program is built for; configure with -DKVANT_BASELINE=x86-64 and build again.\n");
  _exit(2);
}

[[gnu::used, gnu::section(".preinit_array")]] void (*const check_baseline_first)(int, char**, char**) = check_baseline;

}  // namespace
#endif
