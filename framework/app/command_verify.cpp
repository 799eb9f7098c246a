// kvant verify FILE…: recorded values of the reference against this build on this machine.
#include "app/command.hpp"
#include "base/error.hpp"
#include "train/runtime.hpp"
#include "train/verify.hpp"

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include <algorithm>
#include <cmath>
#include <memory>

namespace kvant::app {
namespace {

struct Arguments {
  std::vector<std::string> files;
  bool verbose = false, json = false;
};

/// The worst of each group of tensors, or all of them.
void print(const train::Verification& v, bool verbose) {
  fmt::print("{}\n", v.file);
  std::vector<train::Comparison> lines = v.comparisons;
  std::stable_sort(lines.begin(), lines.end(), [](const auto& a, const auto& b) { return a.tensor < b.tensor; });
  for (const train::Comparison& c : lines) {
    const bool exact = c.limit == 0 && c.holds();  // the thousands of a file of quantizers
    if (!verbose && c.holds() && (exact || c.tensor.starts_with("grad norm/"))) continue;
    fmt::print("  {} {:<110} {:<18} {:9.2e}  limit {:8.1e}\n", c.holds() ? "ok  " : "FAIL", c.tensor, c.measure, c.error, c.limit);
  }
  for (const std::string& name : v.not_compared) fmt::print("  FAIL {:<110} stored, but nothing was compared with it\n", name);
  for (const std::string& what : v.not_offered) fmt::print("  not offered: {}\n", what);
  const auto bad = std::count_if(v.comparisons.begin(), v.comparisons.end(), [](const auto& c) { return !c.holds(); });
  fmt::print("  {}: {} values compared, {} beyond their limit, {} not compared, {} not offered\n", v.holds() ? "holds" : "DOES NOT HOLD",
             v.comparisons.size(), bad, v.not_compared.size(), v.not_offered.size());
}

/// A NaN or an infinity is no JSON number: such an error is null.
nlohmann::json number(double v) { return std::isfinite(v) ? nlohmann::json(v) : nlohmann::json(); }

nlohmann::json as_json(const train::Verification& v) {
  nlohmann::json tensors = nlohmann::json::array();
  for (const train::Comparison& c : v.comparisons)
    tensors.push_back({{"tensor", c.tensor}, {"measure", c.measure}, {"error", number(c.error)}, {"limit", c.limit}, {"holds", c.holds()}});
  return {{"file", v.file}, {"holds", v.holds()}, {"not_compared", v.not_compared}, {"not_offered", v.not_offered}, {"tensors", tensors}};
}

int run(const Arguments& arguments) {
  train::Runtime runtime;
  bool all = true;
  nlohmann::json files = nlohmann::json::array();
  for (const std::string& file : arguments.files) {
    const train::Verification v = train::verify_file(file, runtime.exec(), runtime.world());
    if (arguments.json)
      files.push_back(as_json(v));
    else
      print(v, arguments.verbose);
    all = all && v.holds();
  }
  if (arguments.json) fmt::print("{}\n", files.dump(1));
  return static_cast<int>(all ? ExitCode::success : ExitCode::failure);
}

}  // namespace

void add_verify(CLI::App& app, Context& context) {
  CLI::App* command = app.add_subcommand("verify", "compare this build, on this machine, with recorded values of the reference");
  auto arguments = std::make_shared<Arguments>();
  refuse_empty(command->add_option("FILE", arguments->files, "recorded values (.safetensors) or tables of rules (.json); weights are looked up beside them")->required(), "a file");
  command->add_flag("--verbose", arguments->verbose, "print every tensor");
  command->add_flag("--json", arguments->json, "print every tensor as JSON: file, tensor, measure, error, limit, holds");
  add_examples(*command, {"kvant verify tests/reference/data/ds3_tiny.none.safetensors",
                          "kvant verify --verbose tests/reference/data/*.none.safetensors tests/reference/data/*.packed.safetensors"});
  command->callback([arguments, &context] { context.run = [arguments] { return run(*arguments); }; });
}

}  // namespace kvant::app
