// The parts of `kvant bench`, each a subcommand in a file of its own.
#pragma once

#include "app/command.hpp"

namespace kvant::app {

void add_bench_step(CLI::App& bench, Context& context);
void add_bench_gemm(CLI::App& bench, Context& context);
void add_bench_quantize(CLI::App& bench, Context& context);

}  // namespace kvant::app
