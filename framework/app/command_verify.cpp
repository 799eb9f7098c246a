// kvant verify FILE…: recorded values of the reference against this build on this machine.
#include "app/command.hpp"
#include "base/error.hpp"
#include "train/runtime.hpp"
#include "train/verify.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <memory>

namespace kvant::app {
namespace {

struct Arguments {
  std::vector<std::string> files;
  bool verbose = false;
};

/// The worst of each group of tensors, or all of them.
void print(const train::Verification& v, bool verbose) {
  fmt::print("{}\n", v.file);
  std::vector<train::Comparison> lines = v.comparisons;
  std::stable_sort(lines.begin(), lines.end(), [](const auto& a, const auto& b) { return a.tensor < b.tensor; });
  for (const train::Comparison& c : lines) {
    if (!verbose && c.holds() && c.tensor.starts_with("grad norm/")) continue;
    fmt::print("  {} {:<110} {:<18} {:9.2e}  limit {:8.1e}\n", c.holds() ? "ok  " : "FAIL", c.tensor, c.measure, c.error, c.limit);
  }
  for (const std::string& name : v.not_compared) fmt::print("  FAIL {:<110} stored, but nothing was compared with it\n", name);
  const auto bad = std::count_if(v.comparisons.begin(), v.comparisons.end(), [](const auto& c) { return !c.holds(); });
  fmt::print("  {}: {} values compared, {} beyond their limit, {} not compared\n", v.holds() ? "holds" : "DOES NOT HOLD", v.comparisons.size(), bad,
             v.not_compared.size());
}

int run(const Arguments& arguments) {
  train::Runtime runtime;
  bool all = true;
  for (const std::string& file : arguments.files) {
    const train::Verification v = train::verify_file(file, runtime.exec(), runtime.world());
    print(v, arguments.verbose);
    all = all && v.holds();
  }
  return static_cast<int>(all ? ExitCode::success : ExitCode::failure);
}

}  // namespace

void add_verify(CLI::App& app, Context& context) {
  CLI::App* command = app.add_subcommand("verify", "compare this build, on this machine, with recorded values of the reference");
  auto arguments = std::make_shared<Arguments>();
  command->add_option("FILE", arguments->files, "recorded values (.safetensors); their weights are looked up beside them")->required();
  command->add_flag("--verbose", arguments->verbose, "print every tensor");
  add_examples(*command, {"kvant verify tests/reference/data/ds3_tiny.none.safetensors",
                          "kvant verify --verbose tests/reference/data/*.none.safetensors tests/reference/data/*.packed.safetensors"});
  command->callback([arguments, &context] { context.run = [arguments] { return run(*arguments); }; });
}

}  // namespace kvant::app
