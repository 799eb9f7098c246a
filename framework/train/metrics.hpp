// What a run measures, to the console and to two files of its folder. Names are those of docs/metrics.md
// (MaxText's): learning/…, perf/…, eval/…, and moe/… for each expert.
#pragma once

#include "train/run_folder.hpp"

#include <cstdint>
#include <cstdio>
#include <memory>
#include <string>
#include <utility>
#include <vector>

namespace kvant::train {

/// Names and values in the order in which they are written; every name once.
using Row = std::vector<std::pair<std::string, double>>;

/// The console line of a step: "completed step: 9, seconds: 0.512, TFLOP/s/device: …, Tokens/s/device: …,
/// total_weights: …, loss: …, lm_loss: …, perplexity: …[, moe_lb_loss: …][, main_model_loss: …, mtp_loss: …][, sol:
/// …]". A field whose value the row does not hold is left out.
std::string step_line(int64_t step, const Row& row);
/// "evaluated after step: 9, avg_loss: …, avg_perplexity: …, total_weights: …" and what else of eval/ the row holds.
std::string evaluation_line(int64_t step, const Row& row);

/// metrics.jsonl: one JSON object a row, "step" first, then the row's names; numbers in the shortest form that reads
/// back as the same double; NaN and infinities, which JSON does not have, are null. metrics.csv: the same rows under
/// one header: step, the names of the first row, then those of evaluations. What a row does not hold stays empty; NaN
/// and infinities are nan, inf and -inf. Every row is with the operating system before the call returns. Console: on a
/// terminal a bar that moves with every step; a line of its own for the first and the last step, every `log_period`-th
/// and every evaluation. Elsewhere these lines alone, without control characters.
class MetricsWriter {
 public:
  /// Creates both files; `steps` is the length of the run. `terminal`: whether `console` is one.
  MetricsWriter(const RunFolder& folder, int64_t steps, int64_t log_period, std::FILE* console, bool terminal);
  /// On stdout; whether that is a terminal is asked of the system.
  MetricsWriter(const RunFolder& folder, int64_t steps, int64_t log_period);
  ~MetricsWriter();
  MetricsWriter(const MetricsWriter&) = delete;
  MetricsWriter& operator=(const MetricsWriter&) = delete;

  /// Steps count from 0. Throws Error if a file cannot be written, a name occurs twice, or a name occurs that the
  /// header of metrics.csv does not have.
  void step(int64_t step, const Row& row);
  void evaluation(int64_t step, const Row& row);
  /// Takes the bar from the terminal and flushes the console; the destructor does it too.
  void flush();

 private:
  struct Inside;
  std::unique_ptr<Inside> inside_;
};

}  // namespace kvant::train
