// Which instruction set the inner loops use, chosen at run time. Includes no standard library header: the files of this
// folder that are built above the baseline may include it (or the linker could pick a
// newer copy of an inline function for everybody).
#pragma once

namespace kvant {

enum class Isa {
  portable,    ///< C++ alone, built for the baseline
  avx2,        ///< AVX2, FMA, F16C: int8 by vpmovsxbw + vpmaddwd
  avxvnni,     ///< avx2 and the 256-bit vpdpbusd (VEX)
  avx512,      ///< AVX-512 F, BW, DQ, VL; int8 as avx2
  avx512vnni,  ///< avx512 and the 512-bit vpdpbusd
};
inline constexpr int isa_count = 5;

/// "portable", "avx2", ...: what KVANT_ISA takes and the benchmarks print.
const char* name_of(Isa isa);

bool cpu_has(Isa isa);

/// The best that the CPU has, or what the environment variable KVANT_ISA names. Throws kvant::UsageError for a name that
/// is not one of the five or that this CPU lacks. The environment is read at the first call.
Isa chosen_isa();

/// Whether sums in float16 run on this CPU and the chosen instruction set: AVX-512 FP16 with avx512vnni, or portable, which is slow.
bool sums_in_half();

/// What a value of KVANT_ISA means (null or empty: the best that the CPU has). Throws as chosen_isa does.
Isa isa_from(const char* wanted);

/// For tests and benchmarks: while it lives, chosen_isa() is the one given (which the CPU must have).
class IsaScope {
 public:
  explicit IsaScope(Isa isa);
  ~IsaScope();
  IsaScope(const IsaScope&) = delete;
  IsaScope& operator=(const IsaScope&) = delete;

 private:
  int before_;
};

}  // namespace kvant
