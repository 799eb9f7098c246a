// Trainer: the run from the first batch to the last evaluation.
#pragma once

#include "config/settings.hpp"
#include "data/dataset.hpp"
#include "train/engine.hpp"
#include "train/metrics.hpp"
#include "train/runtime.hpp"

namespace kvant::train {

struct RunResult {
  int64_t steps = 0;             ///< optimizer steps that were done
  double eval_loss = 0;          ///< mean cross entropy over the held-out targets that were looked at; NaN: none were
  double tokens_per_second = 0;  ///< median over the steps after the first
  int stopped_by = 0;            ///< signal number, 0: ran to its end
};

/// The step loop. The caller holds a StopSignal: a signal ends the loop after its step, or an evaluation after its batch. Metrics are flushed row by row, so whatever ends the run leaves them whole.
RunResult train(const config::Settings& settings, const data::Dataset& dataset, Engine& engine, Runtime& runtime, MetricsWriter& metrics);

/// Mean over up to metrics.eval_steps batches of the held-out part, names of maxtext-semantics 4.4 (eval/…). Empty: nothing is held
/// out, or a signal came in between.
Row evaluate(const config::Settings& settings, const data::Dataset& dataset, Engine& engine);

}  // namespace kvant::train
