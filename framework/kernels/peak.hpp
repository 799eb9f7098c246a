// What this machine's arithmetic can do at most, measured in registers: the base of `sol` in the step line and of the
// shares that the benchmarks print.
#pragma once

#include "tensor/dtype.hpp"

#include <string>

namespace kvant {

/// Operations a second (two per multiply-add) of `threads` threads in the arithmetic that a GEMM on this type runs in,
/// with the chosen ISA: int8 in integers, everything else in f32. Measured once for each host, CPU, ISA, type and number of
/// threads (a tenth of a second), then read from the cache file. Throws where threads is not in 1..(threads of the
/// execution space) and on a device backend, which has no probe.
double measured_peak_ops(DType dtype, int threads);

/// The same, measured now and not cached.
double measure_peak_ops_now(DType dtype, int threads);

/// Where measured_peak_ops keeps its numbers: $KVANT_CACHE_DIR, else $XDG_CACHE_HOME/kvant, else ~/.cache/kvant.
std::string peak_cache_file();

}  // namespace kvant
