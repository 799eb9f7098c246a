// Room optim: what turns gradients into new values. This header: the learning rate of a step (maxtext-semantics 4.2).
#pragma once

#include "config/settings.hpp"

#include <cstdint>

namespace kvant::optim {

/// Learning rate of optimizer step `step` (from 0) in a run of `steps`: linear from 0 over the warm-up, then
///   cosine    lr · (f + (1 - f) · ½ (1 + cos(π s / (N - 1)))), s steps after the warm-up, N = schedule length - warm-up
///   wsd       lr, then over the last wsd_decay_steps_fraction linear or cosine to f · lr
///   constant  lr
/// f = learning_rate_final_fraction; 0 after learning_rate_schedule_steps (-1: after `steps`).
double learning_rate(const config::OptimizerSettings& settings, int64_t steps, int64_t step);

}  // namespace kvant::optim
