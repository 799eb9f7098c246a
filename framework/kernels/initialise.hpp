// Initial values of parameters: a function of (seed, stream, element), whatever the threads or ranks.
#pragma once

#include "base/rng.hpp"
#include "tensor/tensor.hpp"

namespace kvant {

struct Exec;

/// x (f32, contiguous) ~ N(0, std²) by Box and Muller from Philox words. truncated: values beyond two deviations of the
/// underlying normal are drawn again, and the normal is widened by 1/0.87962566 so that `std` is the deviation of the result
/// (the reference's variance-scaling initialiser).
void initialise_normal(const Exec& exec, const TensorView& x, uint64_t seed, uint64_t stream, double std, bool truncated);

}  // namespace kvant
