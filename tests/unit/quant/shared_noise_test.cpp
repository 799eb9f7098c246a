// Gradients that are rounded with noise which elements share, as the reference has it. The twin numbers the draws by hand, axis by axis
// of a gradient [sequences, positions, outputs], quantizes in plain loops and sums in double precision.
#include "quant/shared_noise.hpp"

#include "base/error.hpp"
#include "support/quant_problem.hpp"

#include <catch2/catch_test_macros.hpp>
#include <catch2/matchers/catch_matchers_string.hpp>

#include <algorithm>
#include <cmath>
#include <set>

namespace {

using namespace kvant;
using kvant::test::QuantProblem;
using kvant::test::types;
using kvant::test::uniform_values;

constexpr int64_t sequences = 3, positions = 5, rows = sequences * positions, k = 18, n = 22;

std::size_t at(int64_t i) { return static_cast<std::size_t>(i); }

/// Codes and scales of v [rows, cols]: what shares a scale is a row, or a column. No noise where `noise` is empty.
struct Codes {
  std::vector<double> code;
  std::vector<float> scale;
};
Codes codes_of(const std::vector<float>& v, int64_t height, int64_t cols, bool by_row, const std::vector<float>& noise = {}) {
  Codes q;
  q.scale.assign(at(by_row ? height : cols), 0.0f);
  for (int64_t i = 0; i < height * cols; ++i) {
    float& m = q.scale[at(by_row ? i / cols : i % cols)];
    m = std::fmax(m, std::fabs(v[at(i)]));
  }
  for (float& s : q.scale) s = s / 127.5f;
  for (int64_t i = 0; i < height * cols; ++i) {
    const float ratio = v[at(i)] / q.scale[at(by_row ? i / cols : i % cols)];
    q.code.push_back(std::clamp(std::nearbyint(static_cast<double>(ratio + (noise.empty() ? 0.0f : noise[at(i)]))), -128.0, 127.0));
  }
  return q;
}

/// One draw for all elements that agree in the named axes; draws are numbered in the order of a gradient of extent 1 along the others.
std::vector<float> shared_draws(Rounding rounding, uint64_t seed, uint64_t stream, const std::set<int64_t>& axes) {
  std::vector<float> noise;
  for (int64_t b = 0; b < sequences; ++b)
    for (int64_t t = 0; t < positions; ++t)
      for (int64_t j = 0; j < n; ++j) {
        int64_t number = axes.contains(0) ? b : 0;
        if (axes.contains(1)) number = number * positions + t;
        if (axes.contains(2)) number = number * n + j;
        noise.push_back(noise_of(rounding, seed, stream, static_cast<uint64_t>(number)));
      }
  return noise;
}

double worst(const std::vector<float>& got, const std::vector<double>& expected, const std::vector<double>& size) {
  double off = 0;
  for (std::size_t i = 0; i < expected.size(); ++i)
    off = std::fmax(off, std::fabs(static_cast<double>(got[i]) - expected[i]) / std::fmax(size[i], 1e-300));
  return off;
}

quant::Rule rule_with(const std::vector<int64_t>& axes, Rounding rounding) {
  auto rule = types("int8", "int8", "int8");
  rule.bwd_rounding = rounding;
  rule.noise_axes = axes;
  return rule;
}

}  // namespace

TEST_CASE("elements of a gradient share the noise of the axes that are not named, the same for both gradients", "[quant][noise]") {
  const auto x = uniform_values(rows * k, 1), w = uniform_values(k * n, 2, 0.3f), g = uniform_values(rows * n, 3, 1e-4f);
  const std::vector<std::vector<int64_t>> settings{{}, {0}, {1}, {2}, {0, 1}, {0, 2}, {1, 2}, {0, 1, 2}};
  for (const Rounding rounding : {Rounding::uniform, Rounding::low_bit_uniform}) {
    std::set<std::vector<float>> seen;
    for (const auto& axes : settings) {
      INFO(quant::words_of_noise(axes));
      QuantProblem p(rows, k, n, rule_with(axes, rounding), {}, DType::f32, nullptr, "ieee");
      p.sequence_length = positions;
      p.set(x, w, g);
      p.forward();
      p.backward();
      const uint64_t stream = noise_stream(stream_of("gradient for dx test/site dot_general0"), 0, 0);
      const auto noise = shared_draws(rounding, 0, stream, {axes.begin(), axes.end()});
      const Codes qx = codes_of(x, rows, k, true), qw = codes_of(w, k, n, false);
      std::vector<float> by_weight = g, by_act = g;
      for (int64_t i = 0; i < rows * n; ++i) {
        by_weight[at(i)] *= qw.scale[at(i % n)];
        by_act[at(i)] *= qx.scale[at(i / n)];
      }
      const Codes gi = codes_of(by_weight, rows, n, true, noise), gw = codes_of(by_act, rows, n, false, noise);
      std::vector<double> dx(at(rows * k)), dx_size = dx, dw(at(k * n)), dw_size = dw;
      for (int64_t r = 0; r < rows; ++r)
        for (int64_t i = 0; i < k; ++i)
          for (int64_t j = 0; j < n; ++j) {
            const double to_x = gi.code[at(r * n + j)] * qw.code[at(i * n + j)] * static_cast<double>(gi.scale[at(r)]);
            const double to_w = qx.code[at(r * k + i)] * gw.code[at(r * n + j)] * static_cast<double>(gw.scale[at(j)]);
            dx[at(r * k + i)] += to_x, dx_size[at(r * k + i)] += std::fabs(to_x);
            dw[at(i * n + j)] += to_w, dw_size[at(i * n + j)] += std::fabs(to_w);
          }
      CHECK(worst(p.dx.floats(), dx, dx_size) < 5e-7);
      CHECK(worst(p.dw(), dw, dw_size) < 5e-7);
      seen.insert(p.dw());
    }
    CHECK(seen.size() == settings.size());  // no two settings round alike
  }
}

TEST_CASE("the products of tiles share noise, too", "[quant][noise]") {
  // A gradient by blocks of tokens takes another way through the quantizer; where all blocks have one scale it has the same codes.
  const auto x = uniform_values(rows * k, 1), w = uniform_values(k * n, 2, 0.3f), g = uniform_values(rows * n, 3, 1e-4f);
  std::vector<float> dw[2];
  for (const bool tiles : {false, true}) {
    auto rule = rule_with({0}, Rounding::uniform);
    rule.original_residuals = true;
    rule.disable_channelwise_axes = true;
    if (tiles) rule.wgrad_tile = {positions, 0};
    std::vector<float> level = g;
    for (int64_t r = 0; r < rows; r += positions) level[at(r * n)] = 1e-3f;  // every tile has the same maximum
    QuantProblem p(rows, k, n, rule, {}, DType::f32, nullptr, "ieee");
    p.sequence_length = positions;
    p.set(x, w, level);
    p.forward();
    p.backward();
    dw[tiles] = p.dw();
  }
  double off = 0, size = 0;
  for (std::size_t i = 0; i < dw[0].size(); ++i) {
    off += std::pow(static_cast<double>(dw[0][i]) - static_cast<double>(dw[1][i]), 2);
    size += std::pow(static_cast<double>(dw[0][i]), 2);
  }
  CHECK(off < 1e-12 * size);  // the order of float32 operations; other codes would be a per cent
}

TEST_CASE("noise by sequence needs to know how long sequences are", "[quant][noise]") {
  for (const int64_t length : {0, 4}) {
    QuantProblem p(rows, k, n, rule_with({0}, Rounding::uniform), {}, DType::f32, nullptr, "ieee");
    p.sequence_length = length;
    p.set(uniform_values(rows * k, 1), uniform_values(k * n, 2), uniform_values(rows * n, 3));
    p.forward();
    CHECK_THROWS_WITH(p.backward(), Catch::Matchers::ContainsSubstring("Noise by sequence or position of 15 rows"));
  }
  QuantProblem p(rows, k, n, rule_with({2}, Rounding::uniform), {}, DType::f32, nullptr, "ieee");
  p.set(uniform_values(rows * k, 1), uniform_values(k * n, 2), uniform_values(rows * n, 3));
  p.forward();
  CHECK_NOTHROW(p.backward());  // rows need not be told apart
}

TEST_CASE("a gradient of no rows draws nothing", "[quant][noise]") {
  QuantProblem p(0, k, n, rule_with({0}, Rounding::uniform), {}, DType::f32, nullptr, "ieee");
  p.set({}, uniform_values(k * n, 2), {});
  p.forward();
  p.backward();
  for (const float v : p.dw()) REQUIRE(v == 0.0f);
}
