// fp8 products with sums in float16: the portable body against a reference in double, the tile's template with emulated f16 lanes
// against the portable body in every bit, and, where the CPU has AVX-512 FP16, the real one.
#include "base/error.hpp"
#include "kernels/detail/element_gemm.hpp"
#include "kernels/isa/half_tile_body.hpp"
#include "kernels/isa/isa.hpp"
#include "kernels/isa/vector_avx2.hpp"
#include "kernels/scaled_gemm.hpp"
#include "numerics/float.hpp"
#include "support/device_buffer.hpp"

#include <catch2/catch_test_macros.hpp>
#include <catch2/generators/catch_generators.hpp>
#include <catch2/matchers/catch_matchers_string.hpp>

#include <cmath>
#include <cstring>

using namespace kvant;
using kvant::test::DeviceBuffer;
using Catch::Matchers::ContainsSubstring;
using F16 = Float<5, 10, FloatVariant::ieee>;

namespace {

/// One rounding to f16 by way of a long double and the definition of the format.
double nearest_half(long double v) {
  if (v == 0.0L || std::isnan(v)) return static_cast<double>(v);
  int exponent = 0;
  std::frexp(v, &exponent);  // v in [2^(exponent-1), 2^exponent)
  const long double unit = std::ldexp(1.0L, std::max(exponent - 11, -24));
  const long double rounded = std::nearbyint(v / unit) * unit;
  return static_cast<double>(std::fabs(rounded) > 65504.0L ? std::copysign(HUGE_VALL, v) : rounded);
}

/// Eight pairs of f16 lanes, one at a time.
struct EmulatedHalf {
  static constexpr int width = 16;
  struct Type {
    double lane[width];
  };
  static Type zero() { return {}; }
  static double value(uint16_t code) { return static_cast<double>(F16::decode(code)); }
  static Type load(const uint16_t* x) {
    Type t;
    for (int i = 0; i < width; ++i) t.lane[i] = value(x[i]);
    return t;
  }
  static void multiply_add(Type& acc, uint16_t a, const Type& b) {
    for (int i = 0; i < width; ++i) acc.lane[i] = nearest_half(static_cast<long double>(value(a)) * b.lane[i] + acc.lane[i]);
  }
  static void narrow(const float* from, int n, float factor, uint16_t* to) {
    for (int i = 0; i < n; ++i) to[i] = F16::encode(from[i] * factor);
  }
  static void add_to(float* c, int columns, const Type& acc, float factor, bool add) {
    for (int i = 0; i < width && i < columns; ++i) {
      const float part = static_cast<float>(acc.lane[i]) * factor;
      c[i] = add ? c[i] + part : part;
    }
  }
};

std::vector<double> codes(DType type, int64_t n, uint64_t seed) {
  std::vector<double> c;
  for (int64_t i = 0; i < n; ++i) {
    const uint32_t code = philox(seed, 5, static_cast<uint64_t>(i)).word[0] & 0xffu;
    const bool special = type == DType::e4m3fn ? (code & 0x7fu) == 0x7fu : (code & 0x7fu) >= 0x7cu;
    c.push_back(special ? 0.0 : static_cast<double>(code));
  }
  return c;
}

float decoded(DType type, double code) { return type == DType::e4m3fn ? E4M3fn::decode(static_cast<uint8_t>(code)) : E5M2::decode(static_cast<uint8_t>(code)); }

struct Case {
  int64_t m, n, k;
  DType type_a, type_b;
  bool trans_a, trans_b, add;
  std::vector<double> a, b;

  Case(int64_t m_, int64_t n_, int64_t k_, DType ta, DType tb, bool transa, bool transb, bool adds)
      : m(m_), n(n_), k(k_), type_a(ta), type_b(tb), trans_a(transa), trans_b(transb), add(adds), a(codes(ta, m_ * k_, 1)), b(codes(tb, k_ * n_, 2)) {}
  DeviceBuffer left() const { return {type_a, trans_a ? Shape{k, m} : Shape{m, k}, a}; }
  DeviceBuffer right() const { return {type_b, trans_b ? Shape{n, k} : Shape{k, n}, b}; }
  DeviceBuffer result() const { return {DType::f32, {m, n}, std::vector<double>(static_cast<std::size_t>(m * n), 0.25)}; }
  double at_a(int64_t i, int64_t p) const { return a[static_cast<std::size_t>(trans_a ? p * m + i : i * k + p)]; }
  double at_b(int64_t p, int64_t j) const { return b[static_cast<std::size_t>(trans_b ? j * k + p : p * n + j)]; }

  std::vector<float> portable() const {
    const DeviceBuffer x = left(), w = right(), c = result();
    detail::GemmProblem p;
    p.m = m, p.n = n, p.k = k, p.half_sums = true;
    p.a = {x.view().data, type_a, x.view().stride[0], trans_a, 0};
    p.b = {w.view().data, type_b, w.view().stride[0], trans_b, 0};
    p.c = {c.view().data, DType::f32, n, 0, add};
    detail::element_gemm(Exec{}, p);
    Kokkos::fence();
    return c.floats();
  }
};

}  // namespace

TEST_CASE("float16 sums: the portable body rounds once after every product, and promotes every 128", "[kernels][gemm]") {
  const DType types[][2] = {{DType::e4m3fn, DType::e4m3fn}, {DType::e5m2, DType::e4m3fn}, {DType::e4m3fn, DType::e5m2}};
  const auto& [ta, tb] = types[GENERATE(0, 1, 2)];
  const Case t(3, 5, GENERATE(0, 1, 127, 128, 129, 300), ta, tb, GENERATE(false, true), GENERATE(false, true), GENERATE(false, true));
  const std::vector<float> got = t.portable();
  const auto down = [](DType type) { return type == DType::e5m2 ? 0x1p-11 : 0x1p-5; };
  for (int64_t i = 0; i < t.m; ++i)
    for (int64_t j = 0; j < t.n; ++j) {
      float sum = t.add ? 0.25f : 0.0f;
      for (int64_t begin = 0; begin < t.k; begin += 128) {
        double part = 0;
        for (int64_t p = begin; p < std::min(t.k, begin + 128); ++p) {
          const double x = nearest_half(static_cast<double>(decoded(ta, t.at_a(i, p))) * down(ta)), y = nearest_half(static_cast<double>(decoded(tb, t.at_b(p, j))) * down(tb));
          part = nearest_half(static_cast<long double>(x) * y + part);
        }
        sum += static_cast<float>(part / (down(ta) * down(tb)));
      }
      CHECK(got[static_cast<std::size_t>(i * t.n + j)] == sum);
    }
}

TEST_CASE("float16 sums: the tile's template agrees with the portable body in every bit", "[kernels][gemm]") {
  if (!exec_is_host || !cpu_has(Isa::avx2)) return;
  for (const auto& [m, n, k] : {std::tuple<int64_t, int64_t, int64_t>{1, 1, 1}, {6, 16, 128}, {13, 40, 130}, {25, 150, 257}, {7, 33, 0}})
    for (const bool trans_a : {false, true})
      for (const bool trans_b : {false, true})
        for (const bool add : {false, true}) {
          INFO(m << " " << n << " " << k << " " << trans_a << trans_b << add);
          const Case t(m, n, k, DType::e5m2, DType::e4m3fn, trans_a, trans_b, add);
          const DeviceBuffer x = t.left(), w = t.right(), c = t.result();
          std::vector<float> scratch(static_cast<std::size_t>(isa::float_tile_scratch(m)) + 16);
          isa::FloatTile tile{};
          tile.m = m, tile.n = n, tile.k = k, tile.add = add;
          tile.a = {x.view().data, x.view().stride[0], isa::FloatSource::e5m2, trans_a};
          tile.b = {w.view().data, w.view().stride[0], isa::FloatSource::e4m3fn, trans_b};
          tile.c = c.view().as<float>();
          tile.ldc = n;
          void* aligned = scratch.data();
          std::size_t room = scratch.size() * sizeof(float);
          tile.scratch = static_cast<float*>(std::align(64, room - 64, aligned, room));
          half_tile_body<Avx2, EmulatedHalf>(tile);
          CHECK(c.floats() == t.portable());
        }
}

TEST_CASE("float16 sums: products of the largest codes do not overflow, and the error is of the size of f16", "[kernels][gemm]") {
  const auto run = [](const DeviceBuffer& a, const DeviceBuffer& b, int64_t m, int64_t n, const TensorView& rows) {
    const IsaScope scope(sums_in_half() ? chosen_isa() : Isa::portable);
    Arena workspace("test");
    const DeviceBuffer c(DType::f32, {m, n}, std::vector<double>(static_cast<std::size_t>(m * n), 0.0));
    ScaledOperand left{a, false, rows, nullptr};
    left.accumulation = Fp8Accumulation::fp16x128;
    scaled_gemm(Exec{}, left, {b, false, {}, nullptr}, c, Write::overwrite, workspace);
    Kokkos::fence();
    return c.floats();
  };
  const std::vector<double> largest(256, 0x7e), largest_wide(256, 0x7b);
  const DeviceBuffer two(DType::f32, {1}, std::vector<double>{2.0});
  // Sums of equal products come near 2^15, where each addition rounds by at most 8 of 196: 128 of them by 4% of the sum, all one way.
  const auto near = [](const std::vector<float>& got, double want) { return std::fabs(static_cast<double>(got[0]) - want) <= 0.04 * want; };
  CHECK(near(run({DType::e4m3fn, {1, 256}, largest}, {DType::e4m3fn, {256, 1}, largest}, 1, 1, two), 2 * 256 * 448.0 * 448.0));
  CHECK(near(run({DType::e5m2, {1, 256}, largest_wide}, {DType::e4m3fn, {256, 1}, largest}, 1, 1, {}), 256 * 57344.0 * 448.0));
  const int64_t m = 24, k = 512, n = 24;
  std::vector<double> ca, cb;
  for (auto* c : {&ca, &cb})
    for (int64_t i = 0; i < 24 * k; ++i) {
      const Random4 r = philox(c == &ca ? 1 : 2, 3, static_cast<uint64_t>(i));
      const double normal = std::sqrt(-2 * std::log(uniform01(r.word[0]) + 1e-9)) * std::cos(6.2831853 * uniform01(r.word[1]));
      c->push_back(E4M3fn::encode(static_cast<float>(normal * 448 / 3.5)));
    }
  const auto y = run({DType::e4m3fn, {m, k}, ca}, {DType::e4m3fn, {k, n}, cb}, m, n, {});
  double off = 0, size = 0;
  for (int64_t i = 0; i < m; ++i)
    for (int64_t j = 0; j < n; ++j) {
      double sum = 0;
      for (int64_t l = 0; l < k; ++l)
        sum += static_cast<double>(decoded(DType::e4m3fn, ca[static_cast<std::size_t>(i * k + l)])) * static_cast<double>(decoded(DType::e4m3fn, cb[static_cast<std::size_t>(l * n + j)]));
      off += std::pow(sum - static_cast<double>(y[static_cast<std::size_t>(i * n + j)]), 2);
      size += sum * sum;
    }
  INFO(std::sqrt(off / size));
  // 128 roundings of 2^-12 of sums that grow as a random walk: about 128^(1/2) · 2^-12 / 3 of a block's sum, 1e-3; twice that is allowed.
  CHECK(off < 2e-3 * 2e-3 * size);
}

TEST_CASE("float16 sums are refused for other types, with scales of blocks, and on a CPU without them", "[kernels][gemm]") {
  const DeviceBuffer a(DType::e4m3fn, {4, 4}, codes(DType::e4m3fn, 16, 1)), b(DType::e5m2, {4, 4}, codes(DType::e5m2, 16, 2)), c(DType::f32, {4, 4});
  Arena workspace("test");
  const auto run = [&](ScaledOperand left, const TensorView& right) {
    left.accumulation = Fp8Accumulation::fp16x128;
    scaled_gemm(Exec{}, left, {right, false, {}, nullptr}, c, Write::overwrite, workspace);
  };
  CHECK_THROWS_WITH(run({b, false, {}, nullptr}, b), ContainsSubstring("float8_e4m3fn by float8_e4m3fn or float8_e5m2; lhs is float8_e5m2, rhs float8_e5m2"));
  ScaledOperand blocks{a, false, {}, nullptr};
  blocks.block = 2;
  CHECK_THROWS_WITH(run(blocks, a), ContainsSubstring("do not take scales of blocks"));
  if (!exec_is_host || !cpu_has(Isa::avx2)) return;
  const IsaScope scope(Isa::avx2);
  CHECK_THROWS_WITH(run({a, false, {}, nullptr}, a), ContainsSubstring("need AVX-512 FP16, which the instruction set avx2"));
}
