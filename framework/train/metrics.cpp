#include "train/metrics.hpp"

#include "base/error.hpp"
#include "train/detail/console.hpp"
#include "train/detail/file_writer.hpp"

#include <nlohmann/json.hpp>

#include <unistd.h>
#include <algorithm>
#include <charconv>
#include <cmath>
#include <cstdlib>
#include <optional>
#include <unordered_map>

namespace kvant::train {
namespace {

/// Columns that come after those of the first row: no evaluation has been made when the header is written.
constexpr const char* evaluation_names[] = {"eval/avg_loss",      "eval/avg_perplexity",
                                            "eval/total_weights", "eval/avg_moe_lb_loss",
                                            "eval/avg_mtp_loss",  "eval/avg_z_loss"};

std::optional<double> find(const Row& row, std::string_view name) {
  const auto found = std::find_if(row.begin(), row.end(), [&](const auto& field) { return field.first == name; });
  return found == row.end() ? std::nullopt : std::optional<double>(found->second);
}

/// The shortest decimal number that reads back as the same double.
std::string shortest(double value) {
  if (value == 0 && std::signbit(value)) return "-0.0";  // "-0" reads back as the integer 0
  char text[32];
  const auto end = std::to_chars(text, text + sizeof text, value);
  return {text, end.ptr};
}

std::string json_row(int64_t step, const Row& row) {
  std::string text = fmt::format("{{\"step\":{}", step);
  for (const auto& [name, value] : row) {
    text += fmt::format(",{}:{}", nlohmann::json(name).dump(), std::isfinite(value) ? shortest(value) : "null");
  }
  return text + "}\n";
}

/// The header, fixed by the first row, and rows under it.
class CsvTable {
 public:
  std::string header(int64_t step, const Row& first) {
    fixed_at_ = step;
    for (const auto& [name, value] : first) add(name);
    for (const char* name : evaluation_names) {
      if (!columns_.contains(name)) add(name);
    }
    std::string text = "step";
    for (const std::string& name : names_) text += "," + name;
    return text + "\n";
  }

  std::string row(int64_t step, const Row& row) const {
    std::vector<std::string> fields(names_.size());
    for (const auto& [name, value] : row) {
      const auto column = columns_.find(name);
      require(column != columns_.end(),
              "The metric '{}' first occurs at step {}, but the columns of metrics.csv were fixed by step {}.", name,
              step, fixed_at_);
      std::string& field = fields[column->second];
      require(field.empty(), "The metric '{}' occurs twice in the row of step {}.", name, step);
      field = shortest(value);
    }
    std::string text = std::to_string(step);
    for (const std::string& field : fields) text += "," + field;
    return text + "\n";
  }

  bool has_header() const { return !names_.empty(); }

 private:
  void add(const std::string& name) {
    require(name.find_first_of(",\"\n") == std::string::npos,
            "The metric '{}' cannot be the name of a column of metrics.csv.", name);
    require(columns_.emplace(name, names_.size()).second, "The metric '{}' occurs twice in the row of step {}.", name,
            fixed_at_);
    names_.push_back(name);
  }

  std::vector<std::string> names_;
  std::unordered_map<std::string, size_t> columns_;
  int64_t fixed_at_ = 0;
};

void append(std::string& line, const char* label, std::optional<double> value, int decimals) {
  if (!value) return;
  // Without decimals for NaN: fmt compares it then, which is a floating-point trap where traps are on.
  line += std::isfinite(*value) ? fmt::format(", {}: {:.{}f}", label, *value, decimals)
                                : fmt::format(", {}: {}", label, *value);
}

/// A terminal that moves no cursor gets plain lines.
bool is_dumb(const char* term) { return term == nullptr || std::string_view(term) == "dumb" || *term == '\0'; }

}  // namespace

std::string step_line(int64_t step, const Row& row) {
  std::string line = fmt::format("completed step: {}", step);
  const auto loss = find(row, "learning/loss"), mtp_loss = find(row, "learning/mtp_loss");
  append(line, "seconds", find(row, "perf/step_time_seconds"), 3);
  append(line, "TFLOP/s/device", find(row, "perf/per_device_tflops_per_sec"), 3);
  append(line, "Tokens/s/device", find(row, "perf/per_device_tokens_per_sec"), 3);
  append(line, "total_weights", find(row, "learning/total_weights"), 0);
  append(line, "loss", loss, 3);
  append(line, "lm_loss", find(row, "learning/lm_loss"), 3);
  append(line, "perplexity", find(row, "learning/perplexity"), 3);
  append(line, "moe_lb_loss", find(row, "learning/moe_lb_loss"), 6);
  if (loss && mtp_loss) {
    append(line, "main_model_loss", *loss - *mtp_loss, 3);
    append(line, "mtp_loss", mtp_loss, 3);
  }
  append(line, "sol", find(row, "perf/sol"), 3);
  return line;
}

std::string evaluation_line(int64_t step, const Row& row) {
  std::string line = fmt::format("evaluated after step: {}", step);
  for (const auto& [name, value] : row) {
    if (!name.starts_with("eval/")) continue;
    const int decimals = name == "eval/total_weights" ? 0 : name == "eval/avg_moe_lb_loss" ? 6 : 3;
    append(line, name.c_str() + 5, value, decimals);
  }
  return line;
}

struct MetricsWriter::Inside {
  detail::FileWriter json, csv;
  detail::Console console;
  CsvTable table;
  int64_t steps, log_period;

  void write(int64_t step, const Row& row) {
    // The table first: it refuses what must not be in either file.
    std::string text = table.has_header() ? "" : table.header(step, row);
    text += table.row(step, row);
    json.write(json_row(step, row));
    csv.write(text);
  }
};

MetricsWriter::MetricsWriter(const RunFolder& folder, int64_t steps, int64_t log_period, std::FILE* console,
                             bool terminal) {
  require(log_period >= 1, "log_period is {}; a line every 1 step or more is possible.", log_period);
  inside_.reset(new Inside{detail::FileWriter(folder.path() / "metrics.jsonl"),
                           detail::FileWriter(folder.path() / "metrics.csv"),
                           detail::Console(console, terminal, steps),
                           {},
                           steps,
                           log_period});
}

MetricsWriter::MetricsWriter(const RunFolder& folder, int64_t steps, int64_t log_period)
    : MetricsWriter(folder, steps, log_period, stdout, ::isatty(STDOUT_FILENO) == 1 && !is_dumb(std::getenv("TERM"))) {}

MetricsWriter::~MetricsWriter() { inside_->console.finish(); }

void MetricsWriter::step(int64_t step, const Row& row) {
  inside_->write(step, row);
  const int64_t done = step + 1;
  if (step == 0 || done == inside_->steps || done % inside_->log_period == 0)
    inside_->console.line(step_line(step, row));
  const auto loss = find(row, "learning/loss");
  inside_->console.progress(done, loss && std::isfinite(*loss) ? fmt::format("loss {:.3f}", *loss) : "");
}

void MetricsWriter::evaluation(int64_t step, const Row& row) {
  inside_->write(step, row);
  inside_->console.line(evaluation_line(step, row));
}

void MetricsWriter::flush() { inside_->console.finish(); }

}  // namespace kvant::train
