#include "quant/codec.hpp"
#include "base/error.hpp"
#include "kernels/scaled_gemm.hpp"
#include "numerics/formats.hpp"
#include "support/device_buffer.hpp"
#include "tensor/arena.hpp"

#include <catch2/catch_test_macros.hpp>
#include <catch2/generators/catch_generators.hpp>
#include <catch2/matchers/catch_matchers_string.hpp>

#include <map>
#include <set>

using namespace kvant;
using namespace kvant::quant;
using Catch::Matchers::ContainsSubstring;
using kvant::test::DeviceBuffer;

TEST_CASE("every qtype has its codec", "[quant]") {
  const std::set<DType> read = {DType::i8, DType::e4m3fn, DType::e5m2, DType::e4m3fnuz, DType::e5m2fnuz, DType::e2m1};
  CHECK(builtin_codec("bf16") == nullptr);
  CHECK(builtin_codec("") == nullptr);
  for (const std::string_view name : builtin_qtypes()) {
    INFO(name);
    const Codec* codec = builtin_codec(name);
    REQUIRE(codec != nullptr);
    CHECK(codec->bound(true) >= codec->bound(false));
    const bool integer = name.starts_with("int") || name.starts_with("uint");
    CHECK(codec->integer() == integer);
    if (integer) CHECK(codec->code_bits() == std::stoi(std::string(name.substr(name.find("int") + 3))));
    if (!name.starts_with("mx") && !name.starts_with("nv") && !integer) CHECK(name_of(codec->storage()) == name);
    CHECK(codec->readable_by_gemm() == read.contains(codec->storage()));
  }
  CHECK(builtin_codec("int8")->bound(true) == 127.5f);
  CHECK(builtin_codec("int8")->bound(false) == 127.0f);
  CHECK(builtin_codec("int16")->bound(true) == 32768.0f);
  CHECK(builtin_codec("int4")->storage() == DType::i8);  // codes of narrow integers multiply as integers
  CHECK(builtin_codec("uint4")->storage() == DType::i8);
  CHECK(builtin_codec("uint8")->storage() == DType::u8);
  CHECK(builtin_codec("int16")->storage() == DType::i16);
  CHECK(builtin_codec("mxfp8") == builtin_codec("float8_e4m3fn"));
}

TEST_CASE("no codec reads the codes of another", "[quant]") {  // report D06
  const DeviceBuffer x(DType::f32, {2, 4}, std::vector<double>{1, -2, 3, 0.5, 448, 7, -1, 0}), scale(DType::f32, {2});
  const DeviceBuffer codes(DType::e4m3fn, {2, 4}), values(DType::f32, {2, 4});
  QuantizeJob job;
  job.x = x;
  job.codes = codes;
  job.scale = scale;
  job.law.bound = 448;
  const Codec &ocp = *builtin_codec("float8_e4m3fn"), &fnuz = *builtin_codec("float8_e4m3fnuz");
  ocp.quantize(Exec{}, job);
  CHECK_THROWS_WITH(fnuz.quantize(Exec{}, job),
                    ContainsSubstring("float8_e4m3fn was given as codes of float8_e4m3fnuz"));
  CHECK_THROWS_AS(fnuz.decode(Exec{}, codes, values), Error);
  CHECK_THROWS_AS(fnuz.quantize_pair(Exec{}, job, job), Error);
  TileJob tiles;
  tiles.x = x;
  tiles.tile = {1, 4, 1, 1};
  tiles.codes = codes;
  tiles.scale = scale;
  CHECK_THROWS_AS(fnuz.quantize_tiles(Exec{}, tiles), Error);
  CHECK_THROWS_AS(fnuz.dequantize_tiles(Exec{}, {codes, tiles.tile, scale, {}, values, false}), Error);

  // What was sent as OCP and is needed as FNUZ goes by value: decoded by the one, encoded by the other.
  ocp.dequantize_tiles(Exec{}, {codes, tiles.tile, scale, {}, values, false});
  const DeviceBuffer converted(DType::e4m3fnuz, {2, 4}), again(DType::f32, {2, 4});
  job.x = values;
  job.codes = converted;
  job.law.bound = 240;
  fnuz.quantize(Exec{}, job);
  fnuz.dequantize_tiles(Exec{}, {converted, tiles.tile, scale, {}, again, false});
  Kokkos::fence();
  const auto before = x.floats(), after = again.floats();
  for (std::size_t i = 0; i < before.size(); ++i)
    CHECK(std::fabs(after[i] - before[i]) <= 0.0626f * std::fabs(before[i]));
}

namespace {

/// How a matrix of integers becomes an operand with scale 1, so that its values are its codes (less the zero point).
struct Exact {
  const Codec& codec;
  DType type;       ///< what the matrix is stored in
  bool zero_point;  ///< a range that is not symmetric: integers alone

  std::vector<double> numbers(int64_t count, uint64_t seed) const {  // |x| < 16 is held by four significant bits
    const bool negative = zero_point || !is_unsigned;
    std::vector<double> x(static_cast<std::size_t>(count));
    for (std::size_t i = 0; i < x.size(); ++i)
      x[i] = negative ? static_cast<int>(philox(seed, 4, i).word[0] % 31u) - 15 : static_cast<int>(philox(seed, 4, i).word[0] % 16u);
    return x;
  }

  TensorView operand(const std::vector<double>& x, int64_t rows, int64_t cols, Arena& arena) const {
    const DeviceBuffer in(type, {rows, cols}, x);
    const TensorView codes = arena.allocate(codec.storage(), {rows, cols}), scale = arena.allocate(DType::f32, {1}),
                     values = arena.allocate(DType::f32, {rows, cols});
    TileJob job;
    job.x = in;
    job.tile = {rows, cols, 1, 1};
    job.codes = codes;
    job.scale = scale;
    job.statistic = Statistic::constant;
    job.high_limit = codec.bound(false);
    job.low_limit = -job.high_limit;
    job.law.bound = codec.bound(false);
    if (zero_point) {
      job.zero_point = arena.allocate(DType::i32, {1});
      job.low_limit = -15;  // as many steps of 1 as there are codes
      job.high_limit = static_cast<float>((1 << codec.code_bits()) - 1 - 15);
    }
    job.workspace = arena.allocate(DType::i32, {tile_workspace(job)});
    codec.quantize_tiles(Exec{}, job);
    Kokkos::fence();
    if (codec.readable_by_gemm() && !zero_point) return codes;
    codec.dequantize_tiles(Exec{}, {codes, job.tile, scale, job.zero_point, values, false});
    Kokkos::fence();
    return values;
  }

  bool is_unsigned = false;
};

int wrong_products(const Exact& exact) {
  const int64_t m = 9, k = 37, n = 11;
  const auto a = exact.numbers(m * k, 1), b = exact.numbers(k * n, 2);
  Arena arena("codec test");
  const TensorView left = exact.operand(a, m, k, arena), right = exact.operand(b, k, n, arena);
  const DeviceBuffer ones_m(DType::f32, {m}, std::vector<double>(static_cast<std::size_t>(m), 1)),
      ones_n(DType::f32, {n}, std::vector<double>(static_cast<std::size_t>(n), 1)), c(DType::f32, {m, n});
  scaled_gemm(Exec{}, {left, false, ones_m, nullptr}, {right, false, ones_n, nullptr}, c, Write::overwrite, arena);
  Kokkos::fence();
  const auto got = c.floats();
  int wrong = 0;
  for (int64_t i = 0; i < m; ++i)
    for (int64_t j = 0; j < n; ++j) {
      double sum = 0;
      for (int64_t l = 0; l < k; ++l)
        sum += a[static_cast<std::size_t>(i * k + l)] * b[static_cast<std::size_t>(l * n + j)];
      wrong += got[static_cast<std::size_t>(i * n + j)] != static_cast<float>(sum);
    }
  return wrong;
}

}  // namespace

TEST_CASE("integer operands within the codes have exact products, whatever the format", "[quant]") {
  // Formats with at least four significant bits hold the integers -15 … 15 (their own unit times a power of two).
  for (const std::string_view name : {"int5", "int6", "int7", "int8", "int16", "uint5", "uint6", "uint7", "uint8", "float8_e4m3fn",
                                      "float8_e4m3", "float8_e3m4", "float8_e4m3fnuz", "float8_e4m3b11fnuz"}) {
    const bool is_unsigned = name.starts_with("uint"), integer = is_unsigned || name.starts_with("int");
    for (const DType type : {DType::f32, DType::bf16})
      for (const bool zero_point : {false, true}) {
        if (zero_point && !integer) continue;
        INFO(name << " from " << name_of(type) << (zero_point ? " with a zero point" : ""));
        CHECK(wrong_products({*builtin_codec(name), type, zero_point, is_unsigned}) == 0);
      }
  }
}

TEST_CASE("block formats have the declared rule for their scales", "[quant]") {
  const ScaleLaw plain;
  CHECK(with_block_rule("int8", plain, false).rule == ScaleRule::exact);
  CHECK(with_block_rule("mxfp8", plain, false).rule == ScaleRule::power_of_two_up);
  CHECK(with_block_rule("mxfp8", plain, true).rule == ScaleRule::power_of_two_biased);
  CHECK(with_block_rule("mxfp8", plain, true).rule_factor == 60.0f / 31.0f);
  CHECK(with_block_rule("mxfp4", plain, true).rule_factor == 12.0f / 7.0f);
  CHECK(with_block_rule("mxfp4", plain, true, true).rule == ScaleRule::power_of_two_up);
  CHECK(with_block_rule("nvfp4", plain, true).rule == ScaleRule::e4m3);
}
