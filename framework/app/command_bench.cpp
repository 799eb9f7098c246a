// kvant bench …: ratios taken side by side in one run, never lone numbers.
#include "app/bench.hpp"

namespace kvant::app {

void add_bench(CLI::App& app, Context& context) {
  CLI::App* bench = app.add_subcommand("bench", "time steps and products, side by side in one run");
  bench->require_subcommand(1);
  add_bench_step(*bench, context);
  add_bench_gemm(*bench, context);
  add_bench_quantize(*bench, context);
  add_examples(*bench, {"kvant bench step configs/bench/tiny.toml --set quant.quantization=int8_full", "kvant bench step --help"});
}

}  // namespace kvant::app
