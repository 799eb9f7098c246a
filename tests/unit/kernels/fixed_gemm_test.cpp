// e4m3fn products in fixed point: the host tiles against the portable body bit for bit, all codes, and the size of the error.
#include "base/error.hpp"
#include "kernels/isa/isa.hpp"
#include "kernels/scaled_gemm.hpp"
#include "numerics/float.hpp"
#include "support/device_buffer.hpp"
#include "support/threads.hpp"

#include <catch2/catch_test_macros.hpp>

#include <cmath>

using namespace kvant;
using kvant::test::DeviceBuffer;

namespace {

std::vector<double> codes(int64_t n, uint64_t seed) {
  std::vector<double> c;
  for (int64_t i = 0; i < n; ++i) {
    const uint32_t code = philox(seed, 5, static_cast<uint64_t>(i)).word[0] & 0xffu;
    c.push_back((code & 0x7fu) == 0x7fu ? 0.0 : static_cast<double>(code));
  }
  return c;
}

ScaledOperand operand(const TensorView& codes, bool trans, const TensorView& scale) { return {codes, trans, scale, nullptr}; }

std::vector<float> product(const ScaledOperand& a, const ScaledOperand& b, const TensorView& offsets, const Shape& c, Isa isa, Write mode) {
  const IsaScope scope(isa);
  Arena workspace("test");
  const DeviceBuffer to(DType::f32, c, std::vector<double>(static_cast<std::size_t>(c.numel()), 0.25));
  ScaledOperand left = a;
  left.accumulation = Fp8Accumulation::fixed;
  if (offsets.data == nullptr)
    scaled_gemm(Exec{}, left, b, to, mode, workspace);
  else if (a.trans)
    scaled_grouped_gemm_wgrad(Exec{}, left, b, offsets, to, mode, workspace);
  else
    scaled_grouped_gemm(Exec{}, left, b, offsets, to, mode, workspace);
  Kokkos::fence();
  return to.floats();
}

}  // namespace

TEST_CASE("fixed point: host tiles and the portable body agree in every bit", "[kernels][gemm]") {
  if (!exec_is_host || !cpu_has(Isa::avx2)) return;
  for (const auto& [m, k, n] : {std::tuple<int64_t, int64_t, int64_t>{1, 1, 1}, {6, 128, 16}, {7, 129, 17}, {13, 300, 40}, {64, 255, 33}, {5, 2, 9}}) {
    const DeviceBuffer sa(DType::f32, {m}, codes(m, 1)), sb(DType::f32, {n}, codes(n, 2));
    for (const bool trans_a : {false, true})
      for (const bool trans_b : {false, true})
        for (const Write mode : {Write::overwrite, Write::accumulate}) {
          INFO(m << " " << k << " " << n << " " << trans_a << trans_b);
          const DeviceBuffer a(DType::e4m3fn, trans_a ? Shape{k, m} : Shape{m, k}, codes(m * k, 3)), b(DType::e4m3fn, trans_b ? Shape{n, k} : Shape{k, n}, codes(k * n, 4));
          CHECK(product(operand(a, trans_a, sa), operand(b, trans_b, sb), {}, {m, n}, Isa::avx2, mode) ==
                product(operand(a, trans_a, sa), operand(b, trans_b, sb), {}, {m, n}, Isa::portable, mode));
        }
  }
  const int64_t rows = 70, k = 150, n = 35;
  const DeviceBuffer offsets(DType::i32, {5}, std::vector<int>{0, 9, 9, 64, 68});
  const DeviceBuffer x(DType::e4m3fn, {rows, k}, codes(rows * k, 5)), w(DType::e4m3fn, {4, k, n}, codes(4 * k * n, 6)), g(DType::e4m3fn, {rows, n}, codes(rows * n, 7));
  CHECK(product(operand(x, false, {}), operand(w, false, {}), offsets, {rows, n}, Isa::avx2, Write::overwrite) ==
        product(operand(x, false, {}), operand(w, false, {}), offsets, {rows, n}, Isa::portable, Write::overwrite));
  CHECK(product(operand(x, true, {}), operand(g, false, {}), offsets, {4, k, n}, Isa::avx2, Write::accumulate) ==
        product(operand(x, true, {}), operand(g, false, {}), offsets, {4, k, n}, Isa::portable, Write::accumulate));
}

TEST_CASE("fixed point: every code is the nearest integer, and the error is a hundredth of the format's own", "[kernels][gemm]") {
  std::vector<double> all, ones;
  for (int code = 0; code < 256; ++code) all.push_back(code), ones.push_back(0x7e);  // 448
  const DeviceBuffer a(DType::e4m3fn, {256, 1}, all), b(DType::e4m3fn, {1, 1}, std::vector<double>{0x7e});
  const auto got = product(operand(a, false, {}), operand(b, false, {}), {}, {256, 1}, exec_is_host && cpu_has(Isa::avx2) ? Isa::avx2 : Isa::portable, Write::overwrite);
  for (int code = 0; code < 256; ++code) {
    const double v = E4M3fn::decode(static_cast<uint8_t>(code)), whole = std::isnan(v) ? 0.0 : std::nearbyint(v * 4095.0 / 448.0);
    CHECK(std::fabs(static_cast<double>(got[static_cast<std::size_t>(code)]) - whole * 448.0 / 4095.0 * 448.0) <= 1e-6 * 448.0 * 448.0);
  }
  // Normal values mapped to the format by row maxima, k = 512: e4m3 alone is off by 3.8e-2 of the product's size.
  const int64_t m = 32, k = 512, n = 32;
  std::vector<double> ca, cb;
  for (auto* c : {&ca, &cb})
    for (int64_t i = 0; i < 32 * k; ++i) {
      const Random4 r = philox(c == &ca ? 1 : 2, 3, static_cast<uint64_t>(i));
      const double normal = std::sqrt(-2 * std::log(uniform01(r.word[0]) + 1e-9)) * std::cos(6.2831853 * uniform01(r.word[1]));
      c->push_back(E4M3fn::encode(static_cast<float>(normal * 448 / 3.5)));
    }
  const DeviceBuffer x(DType::e4m3fn, {m, k}, ca), w(DType::e4m3fn, {k, n}, cb);
  const auto y = product(operand(x, false, {}), operand(w, false, {}), {}, {m, n}, exec_is_host && cpu_has(Isa::avx2) ? Isa::avx2 : Isa::portable, Write::overwrite);
  double off = 0, size = 0;
  for (int64_t i = 0; i < m; ++i)
    for (int64_t j = 0; j < n; ++j) {
      double sum = 0;
      for (int64_t l = 0; l < k; ++l)
        sum += static_cast<double>(E4M3fn::decode(static_cast<uint8_t>(ca[static_cast<std::size_t>(i * k + l)]))) *
               static_cast<double>(E4M3fn::decode(static_cast<uint8_t>(cb[static_cast<std::size_t>(l * n + j)])));
      off += std::pow(sum - static_cast<double>(y[static_cast<std::size_t>(i * n + j)]), 2);
      size += sum * sum;
    }
  INFO(std::sqrt(off / size));
  CHECK(off < 1e-3 * 1e-3 * size);
}

TEST_CASE("fixed point is for e4m3fn by e4m3fn", "[kernels][gemm]") {
  const DeviceBuffer a(DType::e4m3fn, {2, 2}, codes(4, 1)), b(DType::e5m2, {2, 2}, codes(4, 2)), c(DType::f32, {2, 2});
  Arena workspace("test");
  ScaledOperand left = operand(a, false, {});
  left.accumulation = Fp8Accumulation::fixed;
  CHECK_THROWS_AS(scaled_gemm(Exec{}, left, operand(b, false, {}), c, Write::overwrite, workspace), Error);
}
