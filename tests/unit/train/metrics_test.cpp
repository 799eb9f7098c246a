#include "train/metrics.hpp"
#include "base/error.hpp"
#include "support/captured_stream.hpp"
#include "support/temporary_folder.hpp"

#include <algorithm>
#include <catch2/catch_test_macros.hpp>
#include <catch2/matchers/catch_matchers_exception.hpp>
#include <catch2/matchers/catch_matchers_string.hpp>
#include <cmath>
#include <limits>
#include <nlohmann/json.hpp>
#include <sstream>

using namespace kvant::train;
using Catch::Matchers::ContainsSubstring;
using Catch::Matchers::MessageMatches;
using kvant::test::CapturedStream;
using kvant::test::TemporaryFolder;

namespace {

std::vector<std::string> lines_of(const std::string& text) {
  std::vector<std::string> lines;
  std::istringstream in(text);
  for (std::string line; std::getline(in, line);) lines.push_back(line);
  return lines;
}

std::vector<std::string> fields_of(const std::string& line) {
  std::vector<std::string> fields{""};
  for (const char c : line) {
    if (c == ',') {
      fields.emplace_back();
    } else {
      fields.back() += c;
    }
  }
  return fields;
}

const Row full_row = {{"learning/loss", 5.5},
                      {"learning/lm_loss", 5.25},
                      {"learning/perplexity", 190.5664},
                      {"learning/moe_lb_loss", 0.0123456},
                      {"learning/mtp_loss", 0.25},
                      {"learning/total_weights", 2048},
                      {"moe/tokens/1/0", 77},
                      {"perf/step_time_seconds", 0.5},
                      {"perf/per_device_tflops_per_sec", 0.0625},
                      {"perf/per_device_tokens_per_sec", 4096.4},
                      {"perf/sol", 0.3456}};

}  // namespace

TEST_CASE("the console line has its fields in order and ends with sol") {
  CHECK(step_line(9, full_row) ==
        "completed step: 9, seconds: 0.500, TFLOP/s/device: 0.062, Tokens/s/device: 4096.400, total_weights: 2048, "
        "loss: 5.500, lm_loss: 5.250, "
        "perplexity: 190.566, moe_lb_loss: 0.012346, main_model_loss: 5.250, mtp_loss: 0.250, sol: 0.346");
  CHECK(step_line(0, {{"learning/loss", 2.0}}) == "completed step: 0, loss: 2.000");
  CHECK(evaluation_line(9, {{"eval/avg_loss", 2.5}, {"eval/total_weights", 100}, {"learning/loss", 1}}) ==
        "evaluated after step: 9, avg_loss: 2.500, total_weights: 100");
}

TEST_CASE("jsonl: one flat object a row whose numbers read back exactly") {
  const TemporaryFolder folder;
  const RunFolder run = RunFolder::create((folder / "run").string(), "runs", 0);
  CapturedStream console;
  const Row row = {{"learning/loss", 0.1},
                   {"a/third", 1.0 / 3.0},
                   {"a/tiny", std::numeric_limits<double>::denorm_min()},
                   {"a/huge", std::numeric_limits<double>::max()},
                   {"a/float", static_cast<double>(1.1f)},
                   {"a/count", 9007199254740993.0},
                   {"a/minus", -0.0}};
  MetricsWriter metrics(run, 10, 5, console.get(), false);
  metrics.step(0, row);
  metrics.evaluation(0, {{"eval/avg_loss", 2.5}});
  const auto lines = lines_of(TemporaryFolder::read(run.path() / "metrics.jsonl"));  // while the writer is alive
  REQUIRE(lines.size() == 2);
  const auto first = nlohmann::json::parse(lines[0]);
  CHECK(first.at("step") == 0);
  CHECK(first.size() == row.size() + 1);
  for (const auto& [name, value] : row) {
    CHECK(first.at(name).get<double>() == value);
    CHECK(std::signbit(first.at(name).get<double>()) == std::signbit(value));
  }
  CHECK(lines[0].starts_with("{\"step\":0,\"learning/loss\":0.1,"));
  CHECK(nlohmann::json::parse(lines[1]).at("eval/avg_loss") == 2.5);
}

TEST_CASE("csv: one header, fixed by the first row, and every number exactly") {
  const TemporaryFolder folder;
  const RunFolder run = RunFolder::create((folder / "run").string(), "runs", 0);
  CapturedStream console;
  MetricsWriter metrics(run, 10, 5, console.get(), false);
  metrics.step(0, {{"learning/loss", 0.1}, {"moe/tokens/1/0", 12}, {"moe/tokens/1/1", 20}});
  metrics.evaluation(0, {{"eval/avg_loss", 2.5}});
  metrics.step(1, {{"moe/tokens/1/1", 5}, {"learning/loss", 1.0 / 3.0}});
  const auto lines = lines_of(TemporaryFolder::read(run.path() / "metrics.csv"));
  REQUIRE(lines.size() == 4);
  const auto header = fields_of(lines[0]), first = fields_of(lines[1]), evaluation = fields_of(lines[2]),
             second = fields_of(lines[3]);
  CHECK(lines[0].starts_with("step,learning/loss,moe/tokens/1/0,moe/tokens/1/1,eval/avg_loss,"));
  for (const auto* row : {&first, &evaluation, &second}) CHECK(row->size() == header.size());
  CHECK((first[0] == "0" && first[1] == "0.1" && first[2] == "12" && first[3] == "20" && first[4].empty()));
  CHECK((evaluation[0] == "0" && evaluation[1].empty() && evaluation[4] == "2.5"));
  CHECK(second[2].empty());
  CHECK(second[3] == "5");
  CHECK(std::stod(second[1]) == 1.0 / 3.0);
}

TEST_CASE("NaN and infinities: null in JSON, spelt out in CSV") {
  const TemporaryFolder folder;
  const RunFolder run = RunFolder::create((folder / "run").string(), "runs", 0);
  CapturedStream console;
  MetricsWriter metrics(run, 1, 1, console.get(), false);
  const double infinity = std::numeric_limits<double>::infinity();
  metrics.step(0, {{"learning/loss", std::numeric_limits<double>::quiet_NaN()}, {"b", infinity}, {"c", -infinity}});
  CHECK(TemporaryFolder::read(run.path() / "metrics.jsonl") ==
        "{\"step\":0,\"learning/loss\":null,\"b\":null,\"c\":null}\n");
  CHECK_THAT(TemporaryFolder::read(run.path() / "metrics.csv"), ContainsSubstring("\n0,nan,inf,-inf,"));
  CHECK_THAT(console.text(), ContainsSubstring("loss: nan"));
}

TEST_CASE("a row that does not fit the header is an error, and neither file gets it") {
  const TemporaryFolder folder;
  const RunFolder run = RunFolder::create((folder / "run").string(), "runs", 0);
  CapturedStream console;
  MetricsWriter metrics(run, 10, 5, console.get(), false);
  metrics.step(3, {{"learning/loss", 1}});
  CHECK_THROWS_MATCHES(
      metrics.step(4, {{"learning/loss", 1}, {"late", 2}}), kvant::Error,
      MessageMatches(ContainsSubstring("'late' first occurs at step 4") && ContainsSubstring("fixed by step 3")));
  CHECK_THROWS_MATCHES(metrics.step(4, {{"learning/loss", 1}, {"learning/loss", 2}}), kvant::Error,
                       MessageMatches(ContainsSubstring("occurs twice in the row of step 4")));
  CHECK(lines_of(TemporaryFolder::read(run.path() / "metrics.jsonl")).size() == 1);
  CHECK(lines_of(TemporaryFolder::read(run.path() / "metrics.csv")).size() == 2);
  const RunFolder other = RunFolder::create((folder / "other").string(), "runs", 0);
  MetricsWriter twice(other, 10, 5, console.get(), false);
  CHECK_THROWS_MATCHES(twice.step(0, {{"x", 1}, {"x", 2}}), kvant::Error,
                       MessageMatches(ContainsSubstring("'x' occurs twice")));
  const RunFolder third = RunFolder::create((folder / "third").string(), "runs", 0);
  MetricsWriter comma(third, 10, 5, console.get(), false);
  CHECK_THROWS_MATCHES(comma.step(0, {{"a,b", 1}}), kvant::Error,
                       MessageMatches(ContainsSubstring("'a,b' cannot be the name of a column")));
}

TEST_CASE("without a terminal a long run is lines at an interval, without control characters") {
  const TemporaryFolder folder;
  const RunFolder run = RunFolder::create((folder / "run").string(), "runs", 0);
  CapturedStream console;
  {
    MetricsWriter metrics(run, 1000, 10, console.get(), false);
    for (int64_t step = 0; step < 1000; ++step) metrics.step(step, full_row);
    metrics.evaluation(999, {{"eval/avg_loss", 2.5}});
  }
  const std::string text = console.text();
  CHECK(text.find('\r') == std::string::npos);
  CHECK(text.find('\033') == std::string::npos);
  const auto lines = lines_of(text);
  CHECK(lines.size() == 102);  // the first step, every tenth, the evaluation
  CHECK(lines.front().starts_with("completed step: 0,"));
  CHECK(lines[1].starts_with("completed step: 9,"));
  CHECK(lines[100].starts_with("completed step: 999,"));
  CHECK(lines.back() == "evaluated after step: 999, avg_loss: 2.500");
  CHECK(lines_of(TemporaryFolder::read(run.path() / "metrics.jsonl")).size() == 1001);
}

TEST_CASE("on a terminal there is a bar, and it is gone at the end") {
  const TemporaryFolder folder;
  const RunFolder run = RunFolder::create((folder / "run").string(), "runs", 0);
  CapturedStream console;
  {
    MetricsWriter metrics(run, 2, 10, console.get(), true);
    metrics.step(0, full_row);
    metrics.step(1, full_row);
    metrics.flush();
    CHECK(console.text().ends_with("\r\033[K"));
  }
  CHECK_THAT(console.text(),
             ContainsSubstring("[##") && ContainsSubstring("2/2  100%") && ContainsSubstring("loss 5.500"));
}

TEST_CASE("metrics are not written over, and an interval of no steps is refused") {
  const TemporaryFolder folder;
  const RunFolder run = RunFolder::create((folder / "run").string(), "runs", 0);
  CapturedStream console;
  CHECK_THROWS_MATCHES(MetricsWriter(run, 10, 0, console.get(), false), kvant::Error,
                       MessageMatches(ContainsSubstring("log_period is 0")));
  folder.write("run/metrics.csv", "kept");
  CHECK_THROWS_MATCHES(MetricsWriter(run, 10, 5, console.get(), false), kvant::Error,
                       MessageMatches(ContainsSubstring("metrics.csv") && ContainsSubstring("File exists")));
  CHECK(TemporaryFolder::read(folder / "run/metrics.csv") == "kept");
}
