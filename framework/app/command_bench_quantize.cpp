// kvant bench quantize: quantizers against a plain copy, in bytes read and written each second.
#include "app/bench.hpp"
#include "app/bench_rounds.hpp"
#include "base/error.hpp"
#include "kernels/elementwise.hpp"
#include "quant/codec.hpp"
#include "quant/operand_quantizer.hpp"
#include "quant/quantized_matrix.hpp"
#include "train/runtime.hpp"

#include <fmt/format.h>

#include <cstdio>
#include <memory>

namespace kvant::app {
namespace {

struct Arguments {
  int rounds = 15, threads = 0;
  std::string shape = "4096x4096";
};

Shape parse(const std::string& text) {
  long rows = 0, cols = 0;
  char rest = 0;
  constexpr long most = 1 << 17;
  if (std::sscanf(text.c_str(), "%ldx%ld%c", &rows, &cols, &rest) != 2 || rows < 1 || cols < 1 || rows > most || cols > most || rows * cols > (1l << 30))
    refuse("bench quantize: the shape \"{}\" is not of the form RxC (rows x columns, each from 1 to {}, at most 2^30 together).", text, most);
  return {rows, cols};
}

/// What a variant quantizes to, and what shares a scale.
struct Target {
  std::string name, qtype;
  Along along = Along::row;
  std::array<int64_t, 2> tile{};  ///< 0: see along
  Rounding rounding = Rounding::nearest;
};

class Quantizers {
 public:
  Quantizers(BenchRounds& bench, const Shape& shape, DType type)
      : bench_(bench), shape_(shape), x_(type, shape, 1), copy_(type, shape, 2), codes_(DType::u8, shape, 3), scales_(DType::f32, {shape.numel()}, 4) {}

  Variant copy() {
    return {"copy", [this] { kvant::copy(bench_.exec(), x_.view, copy_.view); }, 2.0 * static_cast<double>(x_.view.bytes())};
  }

  Variant variant(const Target& target) {
    const quant::Codec* codec = quant::builtin_codec(target.qtype);
    require(codec != nullptr, "There is no type {}.", target.qtype);
    const double bytes = static_cast<double>(x_.view.bytes()) + static_cast<double>(shape_.numel());
    ScaleLaw law = quant::with_block_rule(target.qtype, {}, false);
    law.bound = law.limit = codec->bound(false);
    const NoiseJob noise{target.rounding, 1, 2, 0, {}};
    TensorView codes = codes_.view;
    codes.dtype = codec->storage();
    if (target.tile[0] == 0) return {target.name, [=, this] { matrix(*codec, law, noise, codes, target.along); }, bytes};
    return {target.name, [=, this] { tiles(*codec, law, noise, codes, target.tile); }, bytes};
  }

  Variant decode(const std::string& qtype) {
    const quant::Codec* codec = quant::builtin_codec(qtype);
    TensorView codes = codes_.view;
    codes.dtype = codec->storage();
    return {qtype + " -> float32", [=, this] { codec->decode(bench_.exec(), codes, copy_.view); }, 5.0 * static_cast<double>(shape_.numel())};
  }

 private:
  TensorView some(int64_t scales) const { return make_view(scales_.view.data, DType::f32, {scales}, scales_.view.space); }

  void matrix(const quant::Codec& codec, const ScaleLaw& law, const NoiseJob& noise, const TensorView& codes, Along along) {
    ArenaScope workspace(bench_.arena());
    QuantizeJob job;
    job.x = x_.view;
    job.codes = codes;
    job.scale_along = along;
    job.scale = some(along == Along::row ? shape_[0] : along == Along::column ? shape_[1] : 1);
    job.law = law;
    job.noise = noise;
    job.magnitudes = bench_.arena().allocate(DType::i32, {job.scale.numel()});
    codec.quantize(bench_.exec(), job);
  }

  void tiles(const quant::Codec& codec, const ScaleLaw& law, const NoiseJob& noise, const TensorView& codes, const std::array<int64_t, 2>& tile) {
    ArenaScope workspace(bench_.arena());
    TileJob job;
    job.x = x_.view;
    job.tile = {tile[0], tile[1], 1, 1};
    job.codes = codes;
    job.scale = some(tile_count(shape_, job.tile));
    job.law = law;
    job.noise = noise;
    job.workspace = bench_.arena().allocate(DType::i32, {tile_workspace(job)});
    codec.quantize_tiles(bench_.exec(), job);
  }

  BenchRounds& bench_;
  Shape shape_;
  Filled x_, copy_, codes_, scales_;
};

int run(const Arguments& arguments) {
  const Shape shape = parse(arguments.shape);
  train::Runtime runtime(arguments.threads);
  fmt::print("{}\n{} rounds; speeds are medians, ratios the median (p10-p90) of the ratios within a round\n", runtime.describe(), arguments.rounds);
  BenchRounds bench(runtime.exec(), runtime.threads(), arguments.rounds, Work::bytes);
  const bool blocks = shape[0] % 128 == 0 && shape[1] % 128 == 0;
  std::vector<Target> targets = {{"int8, rows", "int8"},
                                 {"int8, rows, noise", "int8", Along::row, {}, Rounding::uniform},
                                 {"int8, columns", "int8", Along::column},
                                 {"int8, tensor", "int8", Along::tensor},
                                 {"float8_e4m3fn, rows", "float8_e4m3fn"},
                                 {"float8_e4m3fn, rows, noise", "float8_e4m3fn", Along::row, {}, Rounding::uniform},
                                 {"float8_e5m2, rows", "float8_e5m2"},
                                 {"float4_e2m1fn, rows", "float4_e2m1fn"}};
  if (blocks)
    targets.insert(targets.end(), {{"int8, 1x128", "int8", Along::row, {1, 128}},
                                   {"int8, 128x128", "int8", Along::row, {128, 128}},
                                   {"float8_e4m3fn, 1x128", "float8_e4m3fn", Along::row, {1, 128}},
                                   {"float8_e4m3fn, 128x128", "float8_e4m3fn", Along::row, {128, 128}},
                                   {"mxfp8, 1x32", "mxfp8", Along::row, {1, 32}},
                                   {"nvfp4, 1x16", "nvfp4", Along::row, {1, 16}}});
  for (const DType type : {DType::f32, DType::bf16}) {
    Quantizers quantizers(bench, shape, type);
    std::vector<Variant> variants = {quantizers.copy()};
    for (const Target& target : targets) variants.push_back(quantizers.variant(target));
    if (type == DType::f32)
      for (const char* qtype : {"int8", "float8_e4m3fn", "float8_e5m2"}) variants.push_back(quantizers.decode(qtype));
    bench.compare(fmt::format("{} {} ({:.0f} MiB), bytes read and written, ratio to the copy", to_string(shape), name_of(type),
                              static_cast<double>(shape.numel()) * static_cast<double>(size_of(type)) / 1048576.0),
                  variants);
  }
  return 0;
}

}  // namespace

void add_bench_quantize(CLI::App& bench, Context& context) {
  CLI::App* command = bench.add_subcommand("quantize", "quantizers: types, scales and tiles against a plain copy");
  auto arguments = std::make_shared<Arguments>();
  command->add_option("--rounds", arguments->rounds, "rounds in which all variants take turns")->check(CLI::Range(1, 100000));
  command->add_option("--threads", arguments->threads, "threads (0: OMP_NUM_THREADS, or the machine's)")->check(CLI::Range(0, 1024));
  command->add_option("--shape", arguments->shape, "RxC (rows x columns)");
  add_examples(*command, {"kvant bench quantize", "kvant bench quantize --shape 256x512 --threads 1", "KVANT_ISA=avx2 kvant bench quantize"});
  command->callback([arguments, &context] { context.run = [arguments] { return run(*arguments); }; });
}

}  // namespace kvant::app
