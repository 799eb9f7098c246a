// kvant bench gemm: matrix products against each other and against what the machine can do. All variants of a line take
// turns within a round; what is printed is the median of the ratios within a round, with their p10 and p90, because whole
// rounds are slower when a neighbour is at work.
#include "app/bench.hpp"
#include "app/bench_rounds.hpp"
#include "base/error.hpp"
#include "base/kokkos.hpp"
#include "kernels/gemm.hpp"
#include "kernels/grouped_gemm.hpp"
#include "kernels/peak.hpp"
#include "kernels/scaled_gemm.hpp"
#include "quant/product.hpp"
#include "train/runtime.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <functional>
#include <memory>

namespace kvant::app {
namespace {

struct Arguments {
  int rounds = 15, threads = 0;
  std::vector<std::string> shapes = {"256x512x512", "1024x512x1024", "2048x512x2048", "2048x2048x512", "2048x1024x1024"};
};

struct Size {
  int64_t m, k, n;
  double operations() const { return 2.0 * static_cast<double>(m * k * n); }
};

/// Of one axis: products of three stay far from the range of int64, and a matrix of any two fits this many bytes squared.
constexpr int64_t largest_extent = 131072;

Size parse(const std::string& text) {
  Size s{};
  char rest = 0;
  if (std::sscanf(text.c_str(), "%ldx%ldx%ld%c", &s.m, &s.k, &s.n, &rest) != 3 || s.m < 1 || s.k < 1 || s.n < 1 ||
      std::max({s.m, s.k, s.n}) > largest_extent || s.m * s.k * s.n > int64_t{1} << 36)
    refuse("bench gemm: the shape \"{}\" is not of the form MxKxN (rows x contracted x columns, each from 1 to {}, at most 2^36 together).", text,
           largest_extent);
  return s;
}

/// An int8 weight with its packed form for the forward product.
struct Weight {
  Filled codes;
  Arena arena{"bench weight"};
  PackedOperand packed;

  Weight(const Exec& exec, const Shape& shape) : codes(DType::i8, shape, 11) {
    packed.bytes = packed_bytes(DType::i8, shape, false);
    packed.data = packed.bytes == 0 ? nullptr : arena.allocate_bytes(packed.bytes);
    pack(exec, codes.view, false, packed);
  }
  ScaledOperand operand(const TensorView& scale) const { return {codes.view, false, scale, packed.bytes == 0 ? nullptr : &packed}; }
};

/// x in tiles of 1 x 128 by w in tiles of 128 x 128, as a quantized product runs them.
class Blocks {
 public:
  Blocks(BenchRounds& bench, const Size& s, const std::string& qtype)
      : bench_(bench),
        x_codes_(codec_of(qtype).storage(), {s.m, s.k}, 1),
        w_codes_(codec_of(qtype).storage(), {s.k, s.n}, 2),
        x_scales_(DType::f32, {s.m * s.k / 128}, 3),
        w_scales_(DType::f32, {s.k * s.n / 16384}, 4) {
    recipe_.qtype = qtype;
    recipe_.codec = &codec_of(qtype);
    recipe_.contracted = {128, 0};
    x_ = side(x_codes_, x_scales_, {1, 128, 1, 1}, 1);
    w_ = side(w_codes_, w_scales_, {128, 128, 1, 1}, 0);
  }
  static bool fits(const Size& s) { return s.k % 128 == 0 && s.n % 128 == 0; }

  void multiply(const TensorView& c) {
    StepContext ctx{bench_.exec(), bench_.arena(), bench_.arena()};
    const bool integer = recipe_.codec->storage() == DType::i8;
    quant::multiply(ctx, integer ? quant::Product::integer_blocks : quant::Product::values, x_, w_, {}, c, Write::overwrite);
  }

 private:
  static const quant::Codec& codec_of(const std::string& qtype) { return *quant::builtin_codec(qtype); }
  quant::Side side(const Filled& codes, const Filled& scales, const kvant::TileShape& tile, int contracted) const {
    quant::Side side;
    side.quantized.codes = codes.view;
    side.quantized.scale = scales.view;
    side.quantized.tile = tile;
    side.recipe = &recipe_;
    side.contracted = contracted;
    return side;
  }

  BenchRounds& bench_;
  Filled x_codes_, w_codes_, x_scales_, w_scales_;
  quant::OperandRecipe recipe_;
  quant::Side x_, w_;
};

void dense(BenchRounds& bench, const Size& s) {
  const Filled a(DType::f32, {s.m, s.k}, 1), b(DType::f32, {s.k, s.n}, 2), c(DType::f32, {s.m, s.n}, 3);
  const Filled ah(DType::bf16, {s.m, s.k}, 1), bh(DType::bf16, {s.k, s.n}, 2), a8(DType::e4m3fn, {s.m, s.k}, 1), b8(DType::e4m3fn, {s.k, s.n}, 2);
  const Filled q(DType::i8, {s.m, s.k}, 1), dy(DType::i8, {s.m, s.n}, 2), dw(DType::f32, {s.k, s.n}, 4), fdy(DType::f32, {s.m, s.n}, 5);
  const Filled rows(DType::f32, {s.m}, 6), columns(DType::f32, {s.n}, 7);
  const Weight w(bench.exec(), {s.k, s.n});
  Arena& arena = bench.arena();
  const auto by = [&](FloatGemm body) { return [&, body] { gemm_by(body, bench.exec(), false, false, a.view, b.view, c.view, Write::overwrite, arena); }; };
  const auto scaled = [&](const TensorView& x, const ScaledOperand& y) {
    return [&, x, y] { scaled_gemm(bench.exec(), {x, false, rows.view, nullptr}, y, c.view, Write::overwrite, arena); };
  };
  const auto summed = [&](Fp8Accumulation accumulation) {
    return [&, accumulation] {
      ScaledOperand x{a8.view, false, rows.view, nullptr};
      x.accumulation = accumulation;
      scaled_gemm(bench.exec(), x, {b8.view, false, columns.view, nullptr}, c.view, Write::overwrite, arena);
    };
  };
  std::vector<Variant> forward = {
      {"f32, " + describe(chosen_float_gemm()), by(chosen_float_gemm()), s.operations(), DType::f32},
      {"f32, " + describe(FloatGemm::kokkos_kernels), by(FloatGemm::kokkos_kernels), s.operations(), DType::f32},
      {"bf16 (stored; f32 arithmetic)", [&] { gemm(bench.exec(), false, false, ah.view, bh.view, c.view, Write::overwrite, arena); }, s.operations(), DType::f32},
      {"e4m3 scaled (f32 arithmetic)", scaled(a8.view, {b8.view, false, columns.view, nullptr}), s.operations(), DType::f32},
      {"e4m3 scaled, 12-bit fixed point", summed(Fp8Accumulation::fixed), s.operations(), DType::f32},
      {"int8 scaled, weight packed", scaled(q.view, w.operand(columns.view)), s.operations(), DType::i8},
      {"int8 scaled, weight not packed", scaled(q.view, {w.codes.view, false, columns.view, nullptr}), s.operations(), DType::i8}};
  if (exec_is_host && sums_in_half() && chosen_isa() != Isa::portable)
    forward.push_back({"e4m3 scaled, float16 sums", summed(Fp8Accumulation::fp16x128), s.operations(), DType::f32});
  std::unique_ptr<Blocks> int8_blocks, fp8_blocks;
  if (Blocks::fits(s)) {
    int8_blocks = std::make_unique<Blocks>(bench, s, "int8");
    fp8_blocks = std::make_unique<Blocks>(bench, s, "float8_e4m3fn");
    forward.push_back({"int8, scales of 1x128 and 128x128", [&] { int8_blocks->multiply(c.view); }, s.operations(), DType::i8});
    forward.push_back({"e4m3, scales of 1x128 and 128x128", [&] { fp8_blocks->multiply(c.view); }, s.operations(), DType::f32});
  }
  bench.compare(fmt::format("c[{0},{2}] = a[{0},{1}] b[{1},{2}], ratio to f32", s.m, s.k, s.n), forward);
  std::vector<Variant> wgrad = {
      {"f32", [&] { gemm(bench.exec(), true, false, a.view, fdy.view, dw.view, Write::overwrite, arena); }, s.operations(), DType::f32},
      {"int8 scaled", [&] { scaled_gemm(bench.exec(), {q.view, true, {}, nullptr}, {dy.view, false, columns.view, nullptr}, dw.view, Write::overwrite, arena); },
       s.operations(), DType::i8}};
  bench.compare(fmt::format("weight gradient dw[{1},{2}] = a[{0},{1}]^T dy[{0},{2}], ratio to f32", s.m, s.k, s.n), wgrad);
}

/// Rows of each of 8 groups: all alike, or from a quarter of the mean to nearly twice.
Filled group_offsets(int64_t rows, bool even) {
  constexpr int64_t skewed[] = {1, 7, 3, 5, 4, 2, 6, 4};  // of 32
  Filled offsets(DType::i32, {9}, 0);
  const auto host = Kokkos::create_mirror_view(offsets.bytes);
  auto* at = reinterpret_cast<int32_t*>(host.data());
  at[0] = 0;
  for (int g = 0; g < 8; ++g) at[g + 1] = at[g] + static_cast<int32_t>(even ? rows / 8 : rows / 32 * skewed[g]);
  Kokkos::deep_copy(offsets.bytes, host);
  return offsets;
}

void grouped(BenchRounds& bench, const Size& s) {
  const int64_t rows = std::max<int64_t>(s.m / 32, 1) * 32;
  const Size used{rows, s.k, s.n};
  const Filled a(DType::f32, {rows, s.k}, 1), one(DType::f32, {s.k, s.n}, 2), b(DType::f32, {8, s.k, s.n}, 2), c(DType::f32, {rows, s.n}, 3);
  const Filled q(DType::i8, {rows, s.k}, 1), dy(DType::i8, {rows, s.n}, 2), fdy(DType::f32, {rows, s.n}, 5), dw(DType::f32, {8, s.k, s.n}, 4);
  const Filled scale(DType::f32, {rows}, 6), columns(DType::f32, {8, s.n}, 7), some(DType::f32, {s.n}, 7), even = group_offsets(rows, true), skew = group_offsets(rows, false);
  const Weight single(bench.exec(), {s.k, s.n}), w(bench.exec(), {8, s.k, s.n});
  Arena& arena = bench.arena();
  const auto groups = [&](const TensorView& o) { return [&, o] { grouped_gemm(bench.exec(), false, a.view, b.view, o, c.view, Write::overwrite, arena); }; };
  const auto codes = [&](const TensorView& o) {
    return [&, o] { scaled_grouped_gemm(bench.exec(), {q.view, false, scale.view, nullptr}, w.operand(columns.view), o, c.view, Write::overwrite, arena); };
  };
  std::vector<Variant> plain = {
      {"f32, one group", [&] { gemm(bench.exec(), false, false, a.view, one.view, c.view, Write::overwrite, arena); }, used.operations(), DType::f32},
      {"f32, 8 groups, even", groups(even.view), used.operations(), DType::f32},
      {"f32, 8 groups, skewed", groups(skew.view), used.operations(), DType::f32}};
  bench.compare(fmt::format("groups: {} rows, [{},{}] each, ratio to one group", rows, s.k, s.n), plain);
  std::vector<Variant> integer = {
      {"int8, one group",
       [&] { scaled_gemm(bench.exec(), {q.view, false, scale.view, nullptr}, single.operand(some.view), c.view, Write::overwrite, arena); }, used.operations(), DType::i8},
      {"int8, 8 groups, even", codes(even.view), used.operations(), DType::i8},
      {"int8, 8 groups, skewed", codes(skew.view), used.operations(), DType::i8}};
  bench.compare("the same in int8", integer);
  std::vector<Variant> wgrad = {
      {"f32, 8 groups, even", [&] { grouped_gemm_wgrad(bench.exec(), a.view, fdy.view, even.view, dw.view, Write::overwrite, arena); }, used.operations(), DType::f32},
      {"int8, 8 groups, even", [&] { scaled_grouped_gemm_wgrad(bench.exec(), {q.view, false, {}, nullptr}, {dy.view, false, {}, nullptr}, even.view, dw.view, Write::overwrite, arena); },
       used.operations(), DType::i8}};
  bench.compare("weight gradients of the groups, ratio to f32", wgrad);
}

int run(const Arguments& arguments) {
  std::vector<Size> sizes;
  for (const std::string& text : arguments.shapes) sizes.push_back(parse(text));
  train::Runtime runtime(arguments.threads);
  fmt::print("{}\n", runtime.describe());
  const std::string slow = remark(FloatGemm::kokkos_kernels);
  if (!slow.empty()) fmt::print("{}\n", slow);
  if (exec_is_host)
    fmt::print("peak in registers, {} threads: f32 {:.1f} Gop/s, int8 {:.1f} Gop/s (kept in {})\n", runtime.threads(),
               measured_peak_ops(DType::f32, runtime.threads()) * 1e-9, measured_peak_ops(DType::i8, runtime.threads()) * 1e-9, peak_cache_file());
  fmt::print("{} rounds; speeds are medians, ratios the median (p10-p90) of the ratios within a round\n", arguments.rounds);
  BenchRounds bench(runtime.exec(), runtime.threads(), arguments.rounds, Work::operations);
  for (const Size& s : sizes) dense(bench, s);
  grouped(bench, {2048, 512, 1024});
  return 0;
}

}  // namespace

void add_bench_gemm(CLI::App& bench, Context& context) {
  CLI::App* command = bench.add_subcommand("gemm", "matrix products: each type against f32, groups against one product, all against the peak");
  auto arguments = std::make_shared<Arguments>();
  command->add_option("--rounds", arguments->rounds, "rounds in which all variants take turns")->check(CLI::Range(1, 100000));
  command->add_option("--threads", arguments->threads, "threads (0: OMP_NUM_THREADS, or the machine's)")->check(CLI::Range(0, 1024));
  command->add_option("--shapes", arguments->shapes, "MxKxN (rows x contracted x columns), one or more");
  add_examples(*command, {"kvant bench gemm --threads 1", "kvant bench gemm --shapes 4096x1024x2048 --rounds 31", "KVANT_ISA=avx2 kvant bench gemm"});
  command->callback([arguments, &context] { context.run = [arguments] { return run(*arguments); }; });
}

}  // namespace kvant::app
