// `sol`: the time that a step's matrix products would need at this machine's measured peak, each in the type it runs in, over the
// time the step took. 1 would be a step of nothing but products at the speed of the registers.
#pragma once

#include "config/settings.hpp"
#include "ops/matmul_site.hpp"

namespace kvant::train {

/// Seconds at the measured peak of all arms of all sites (attention products in f32, both backward products each) for this many
/// tokens, on this many threads. The first call on a host measures the peaks (a tenth of a second each); later ones read them.
double seconds_at_peak(const SiteTable& sites, double tokens, int threads);

}  // namespace kvant::train
