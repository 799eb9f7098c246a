// Arithmetic in registers and nothing else: what an instruction set can do at most. No standard library header: see isa.hpp.
#pragma once

#include "kernels/isa/isa.hpp"

#include <stdint.h>

namespace kvant::isa {

/// Runs `rounds` of a fixed number of multiply-adds on this thread; returns operations a round, two per multiply-add.
using PeakProbe = int64_t (*)(int64_t rounds);

PeakProbe float_peak_probe(Isa isa);
PeakProbe int8_peak_probe(Isa isa);

int64_t float_peak_portable(int64_t rounds);
int64_t float_peak_avx2(int64_t rounds);
int64_t float_peak_avx512(int64_t rounds);
int64_t int8_peak_portable(int64_t rounds);
int64_t int8_peak_avx2(int64_t rounds);
int64_t int8_peak_avxvnni(int64_t rounds);
int64_t int8_peak_avx512vnni(int64_t rounds);

}  // namespace kvant::isa
