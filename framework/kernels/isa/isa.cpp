#include "kernels/isa/isa.hpp"

#include "base/error.hpp"
#include "kernels/isa/float_tile.hpp"
#include "kernels/isa/half_tile.hpp"
#include "kernels/isa/int8_tile.hpp"
#include "kernels/isa/leaves.hpp"
#include "kernels/isa/sgemm_leaf.hpp"

#include <atomic>
#include <cstdlib>
#include <string>

namespace kvant {
namespace {

constexpr Isa every_isa[] = {Isa::portable, Isa::avx2, Isa::avxvnni, Isa::avx512, Isa::avx512vnni};

std::string isas_of_this_cpu() {
  std::string names;
  for (const Isa isa : every_isa)
    if (cpu_has(isa)) names += (names.empty() ? "" : ", ") + std::string(name_of(isa));
  return names;
}

std::atomic<int> overridden{-1};

}  // namespace

const char* name_of(Isa isa) {
  switch (isa) {
    case Isa::portable: return "portable";
    case Isa::avx2: return "avx2";
    case Isa::avxvnni: return "avxvnni";
    case Isa::avx512: return "avx512";
    case Isa::avx512vnni: return "avx512vnni";
  }
  return "?";
}

bool cpu_has(Isa isa) {
#if defined(__x86_64__)
  // The builtin asks the operating system too (XCR0), so a kernel that does not save the wide registers counts as lacking.
  const bool avx2 = __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") && __builtin_cpu_supports("f16c");
  const bool avx512 = avx2 && __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
                      __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512vl");
  switch (isa) {
    case Isa::portable: return true;
    case Isa::avx2: return avx2;
    case Isa::avxvnni: return avx2 && __builtin_cpu_supports("avxvnni");
    case Isa::avx512: return avx512;
    case Isa::avx512vnni: return avx512 && __builtin_cpu_supports("avx512vnni");
  }
#endif
  return isa == Isa::portable;
}

Isa isa_from(const char* wanted) {
  if (wanted == nullptr || *wanted == '\0') {
    Isa best = Isa::portable;
    for (const Isa isa : every_isa)
      if (cpu_has(isa)) best = isa;
    return best;
  }
  for (const Isa isa : every_isa) {
    if (std::string(wanted) != name_of(isa)) continue;
    if (!cpu_has(isa)) refuse("The environment variable KVANT_ISA is \"{}\", which this CPU lacks; it has {}.", wanted, isas_of_this_cpu());
    return isa;
  }
  refuse("The environment variable KVANT_ISA is \"{}\", which is no instruction set known here; this CPU has {}.", wanted,
         isas_of_this_cpu());
}

Isa chosen_isa() {
  const int other = overridden.load(std::memory_order_relaxed);
  if (other >= 0) return static_cast<Isa>(other);
  static const Isa chosen = isa_from(std::getenv("KVANT_ISA"));
  return chosen;
}

bool sums_in_half() {
#if defined(__x86_64__)
  if (chosen_isa() == Isa::avx512vnni) return __builtin_cpu_supports("avx512fp16");
#endif
  return chosen_isa() == Isa::portable;
}

IsaScope::IsaScope(Isa isa) : before_(overridden.load()) {
  require(cpu_has(isa), "The instruction set {} was asked for, which this CPU lacks; it has {}.", name_of(isa), isas_of_this_cpu());
  overridden = static_cast<int>(isa);
}

IsaScope::~IsaScope() { overridden = before_; }

SgemmLeaf sgemm_leaf(Isa isa) {
#if defined(__x86_64__)
  if (isa == Isa::avx512 || isa == Isa::avx512vnni) return isa::sgemm_avx512;
  if (isa == Isa::avx2 || isa == Isa::avxvnni) return isa::sgemm_avx2;
#endif
  require(isa == Isa::portable, "There is no f32 leaf for the instruction set {} on this architecture.", name_of(isa));
  return isa::sgemm_portable;
}

isa::FloatTileLeaf isa::float_tile_leaf(Isa isa) {
#if defined(__x86_64__)
  if (isa == Isa::avx512 || isa == Isa::avx512vnni) return isa::float_tile_avx512;
  if (isa == Isa::avx2 || isa == Isa::avxvnni) return isa::float_tile_avx2;
#endif
  require(isa == Isa::portable, "There is no f32 tile for the instruction set {} on this architecture.", name_of(isa));
  return isa::float_tile_portable;
}

isa::FloatTileLeaf isa::half_tile_leaf() {
#if defined(__x86_64__)
  if (chosen_isa() == Isa::avx512vnni && sums_in_half()) return isa::half_tile_avx512fp16;
#endif
  fail("There are no sums in float16 for the instruction set {} of this CPU.", name_of(chosen_isa()));
}

const isa::Int8Leaf& isa::int8_leaf(Isa isa) {
#if defined(__x86_64__)
  switch (isa) {
    case Isa::avx512vnni: return isa::int8_avx512vnni();
    case Isa::avxvnni: return isa::int8_avxvnni();
    case Isa::avx512:  // without VNNI its one gain is wider registers
    case Isa::avx2: return isa::int8_avx2();
    case Isa::portable: break;
  }
#endif
  require(isa == Isa::portable, "There is no int8 kernel for the instruction set {} on this architecture.", name_of(isa));
  return isa::int8_portable();
}

SgemmLeaf sgemm_leaf() { return sgemm_leaf(chosen_isa()); }

}  // namespace kvant
