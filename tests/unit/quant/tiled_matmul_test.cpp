// Products whose scales are not of rows and columns: tiles and blocks, dense and by expert; types of weights alone; transforms.
// The twin quantizes cells in plain loops and sums values in double precision.
#include "base/error.hpp"
#include "numerics/float.hpp"
#include "numerics/int.hpp"
#include "support/quant_problem.hpp"

#include <catch2/catch_test_macros.hpp>

#include <cmath>

namespace {

using namespace kvant;
using kvant::test::integer_values;
using kvant::test::QuantProblem;
using kvant::test::types;
using kvant::test::uniform_values;
namespace ref = kvant::reference;

template <class F>
ref::OperandLaw law(bool power_of_two = false) {
  return {[](float v) { return static_cast<double>(F::decode(F::encode(v))); }, F::max_finite, 1.0f, 0.0f, F::max_finite, power_of_two};
}

std::size_t at(int64_t i) { return static_cast<std::size_t>(i); }

/// Values of codes of a matrix in tiles of high × wide; `first`: rows at which tiles begin anew (experts).
std::vector<double> tiled(const ref::OperandLaw& law, const std::vector<float>& v, int64_t rows, int64_t cols, int64_t high, int64_t wide,
                          const std::vector<int>& first = {0}) {
  std::vector<int64_t> cell(v.size());
  int64_t cells = 0, band = -1;
  std::size_t group = 0;
  const int64_t across = (cols + wide - 1) / wide;
  for (int64_t r = 0, begin = 0; r < rows; ++r) {
    bool fresh = r == 0;
    while (group < first.size() && first[group] <= r) {
      fresh |= first[group] == r;
      if (first[group] == r) begin = r;
      ++group;
    }
    if (fresh || (r - begin) % high == 0) ++band;
    for (int64_t c = 0; c < cols; ++c) cell[at(r * cols + c)] = band * across + c / wide;
    cells = (band + 1) * across;
  }
  const ref::QuantizedMatrix q = ref::quantize_by(law, v, cell, cells);
  std::vector<double> values;
  for (std::size_t i = 0; i < v.size(); ++i) values.push_back(q.code[i] * static_cast<double>(q.scale_at(static_cast<int64_t>(i))));
  return values;
}

std::vector<double> wide(const std::vector<float>& v) { return {v.begin(), v.end()}; }

struct Expected {
  std::vector<double> value, size;
};

/// c[m,n] = sum over l of a(i,l) b(l,j).
template <class A, class B>
Expected product(int64_t m, int64_t begin, int64_t end, int64_t n, const A& a, const B& b) {
  Expected c{std::vector<double>(at(m * n)), std::vector<double>(at(m * n))};
  for (int64_t i = 0; i < m; ++i)
    for (int64_t j = 0; j < n; ++j)
      for (int64_t l = begin; l < end; ++l) {
        const double t = a(i, l) * b(l, j);
        c.value[at(i * n + j)] += t;
        c.size[at(i * n + j)] += std::fabs(t);
      }
  return c;
}

/// f32 sums and one rounding of each value: a few 2^-24 of the sum of magnitudes.
void compare(const char* what, const std::vector<float>& got, const Expected& e, std::size_t from = 0) {
  INFO(what);
  double worst = 0;
  for (std::size_t i = 0; i < e.value.size(); ++i) {
    const double off = std::fabs(static_cast<double>(got[from + i]) - e.value[i]);
    if (!(off <= 1e300)) worst = HUGE_VAL;
    if (off > 0) worst = std::fmax(worst, off / std::fmax(e.size[i], 1e-300));
  }
  CHECK(worst < 5e-7);
}

config::TileSetting tiles(int64_t along_inputs, int64_t along_other, bool weight) {
  config::TileSetting setting;
  setting.axes.emplace_back(weight ? 0 : 1, config::TileSize{along_inputs, 0});
  if (along_other > 0) setting.axes.emplace_back(weight ? 1 : 0, config::TileSize{along_other, 0});
  return setting;
}

}  // namespace

TEST_CASE("int8 in blocks of the contracted axis is integer arithmetic, block by block", "[quant][tiles]") {
  const int64_t rows = 24, k = 64, n = 48;
  auto rule = types("int8", "int8", "int8");
  rule.act_tile = tiles(16, 0, false);
  rule.weight_tile = tiles(16, 16, true);  // square blocks: dx reads the same codes
  rule.dgrad_tile = {16, 0};
  rule.wgrad_tile = {8, 0};
  for (const DType dtype : {DType::f32, DType::bf16}) {
    QuantProblem p(rows, k, n, rule, {}, dtype);
    CHECK(arithmetic_of(*p.recipe, Arm::forward, false) == "int32 in blocks");
    CHECK(arithmetic_of(*p.recipe, Arm::dgrad, false) == "int32 in blocks");
    CHECK(arithmetic_of(*p.recipe, Arm::wgrad, false) == "f32 of quantized values");  // the operand itself, by the tiled forward
    p.set(uniform_values(rows * k, 1), uniform_values(k * n, 2, 0.3f), uniform_values(rows * n, 3, 1e-4f));
    const auto x = p.x().floats(), w = p.weight().floats(), g = p.g().floats();
    const ref::OperandLaw i8 = law<Int<8>>();
    const auto qx = tiled(i8, x, rows, k, 1, 16), qw = tiled(i8, w, k, n, 16, 16), gi = tiled(i8, g, rows, n, 1, 16), gw = tiled(i8, g, rows, n, 8, 1);
    p.forward();
    p.backward();
    if (dtype == DType::f32) {
      compare("y", p.y.floats(), product(rows, 0, k, n, [&](int64_t i, int64_t l) { return qx[at(i * k + l)]; }, [&](int64_t l, int64_t j) { return qw[at(l * n + j)]; }));
      compare("dx", p.dx.floats(), product(rows, 0, n, k, [&](int64_t i, int64_t l) { return gi[at(i * n + l)]; }, [&](int64_t l, int64_t j) { return qw[at(j * n + l)]; }));
    }
    compare("dw", p.dw(), product(k, 0, rows, n, [&](int64_t i, int64_t l) { return static_cast<double>(x[at(l * k + i)]); }, [&](int64_t l, int64_t j) { return gw[at(l * n + j)]; }));
  }
}

TEST_CASE("integers in tiles whose scale is 1 give exact products for any tile", "[quant][tiles]") {
  const int64_t rows = 32, k = 96, n = 32;
  const auto x = [&] {
    auto v = integer_values(rows * k, 5, 15);
    for (int64_t i = 0; i < rows * k; i += 8) v[at(i)] = 127;  // every tile of 8 or more holds the largest code
    return v;
  }();
  const auto w = [&] {
    auto v = integer_values(k * n, 6, 15);
    for (int64_t i = 0; i < k * n; ++i)
      if (i / n % 8 == 3) v[at(i)] = -127;
    return v;
  }();
  for (const int64_t tile : {8, 16, 32, 48, 96}) {
    for (const bool grouped : {false, true}) {
      INFO(tile << (grouped ? " grouped" : " dense"));
      auto rule = types("int8", "int8", "");
      rule.act_tile.contracted = {tile, 0};
      rule.weight_tile.contracted = {tile, 0};
      QuantProblem p(rows, k, n, rule, grouped ? std::vector<int>{0, 32} : std::vector<int>{});
      p.set(x, w, uniform_values(rows * n, 1));
      p.forward();
      const auto y = p.y.floats();
      int64_t wrong = 0;
      for (int64_t i = 0; i < rows; ++i)
        for (int64_t j = 0; j < n; ++j) {
          double sum = 0;
          for (int64_t l = 0; l < k; ++l) sum += static_cast<double>(x[at(i * k + l)]) * static_cast<double>(w[at(l * n + j)]);
          wrong += static_cast<double>(y[at(i * n + j)]) != sum;
        }
      CHECK(wrong == 0);
    }
  }
}

TEST_CASE("experts of any number of tokens are padded to the blocks of the scheme, which changes no result", "[quant][tiles]") {  // report D13
  const std::vector<int> sizes{1, 15, 16, 17, 0, 31, 32, 33, 44};
  std::vector<int> offsets{0};
  for (const int size : sizes) offsets.push_back(offsets.back() + size);
  const int64_t rows = offsets.back() + 3, k = 64, n = 32, groups = static_cast<int64_t>(sizes.size());
  const ref::OperandLaw fp8 = law<E4M3fn>(true);
  QuantProblem p(rows, k, n, types("mxfp8", "mxfp8", "mxfp8"), offsets);
  p.set(uniform_values(rows * k, 1), uniform_values(groups * k * n, 2, 0.3f), uniform_values(rows * n, 3, 1e-4f));
  p.forward();
  p.backward();
  const auto x = p.x().floats(), w = p.weight().floats(), g = p.g().floats();
  const auto qx = tiled(fp8, x, rows, k, 1, 32), qw = tiled(fp8, w, groups * k, n, 32, 1), gi = tiled(fp8, g, rows, n, 1, 32), gw = tiled(fp8, g, rows, n, 32, 1, offsets);
  const auto y = p.y.floats(), dx = p.dx.floats(), dw = p.dw();
  for (int64_t e = 0; e < groups; ++e) {
    INFO("expert " << e << " of " << sizes[at(e)] << " tokens");
    const int64_t begin = offsets[at(e)], count = sizes[at(e)];
    compare("y", y, product(count, 0, k, n, [&](int64_t i, int64_t l) { return qx[at((begin + i) * k + l)]; }, [&](int64_t l, int64_t j) { return qw[at((e * k + l) * n + j)]; }), at(begin * n));
    compare("dx", dx, product(count, 0, n, k, [&](int64_t i, int64_t l) { return gi[at((begin + i) * n + l)]; }, [&](int64_t l, int64_t j) { return static_cast<double>(w[at((e * k + j) * n + l)]); }), at(begin * k));
    compare("dw", dw, product(k, begin, begin + count, n, [&](int64_t i, int64_t l) { return static_cast<double>(x[at(l * k + i)]); }, [&](int64_t l, int64_t j) { return gw[at(l * n + j)]; }), at(e * k * n));
  }
}

TEST_CASE("tokens of an expert may be padded to any multiple", "[quant][tiles]") {  // report D13
  const std::vector<int> sizes{1, 15, 16, 17, 31, 32, 33, 44};
  std::vector<int> offsets{0};
  for (const int size : sizes) offsets.push_back(offsets.back() + size);
  const int64_t rows = offsets.back(), k = 24, n = 20, groups = static_cast<int64_t>(sizes.size());
  const auto x = uniform_values(rows * k, 1), w = uniform_values(groups * k * n, 2, 0.3f), g = uniform_values(rows * n, 3, 1e-4f);
  QuantProblem plain(rows, k, n, types("int8", "int8", "int8"), offsets);
  plain.set(x, w, g);
  plain.forward();
  plain.backward();
  const ref::OperandLaw i8 = law<Int<8>>();
  for (const int64_t multiple : {16, 32, 128}) {
    auto rule = types("int8", "int8", "int8");
    rule.wgrad_tile = {multiple, 0};
    rule.original_residuals = true;  // dw is x itself by the gradient's codes: what padding could spoil, and nothing else
    QuantProblem p(rows, k, n, rule, offsets);
    p.set(x, w, g);
    p.forward();
    p.backward();
    CHECK(p.y.floats() == plain.y.floats());
    // The twin is not padded: the last tile of an expert is as short as its tokens leave it.
    const auto gw = tiled(i8, g, rows, n, multiple, 1, offsets), fx = wide(x);
    const auto dw = p.dw();
    for (int64_t e = 0; e < groups; ++e) {
      INFO("multiple " << multiple << ", expert of " << sizes[at(e)] << " tokens");
      const int64_t begin = offsets[at(e)], end = offsets[at(e + 1)];
      compare("dw", dw, product(k, begin, end, n, [&](int64_t i, int64_t l) { return fx[at(l * k + i)]; }, [&](int64_t l, int64_t j) { return gw[at(l * n + j)]; }), at(e * k * n));
    }
  }
}

TEST_CASE("types of weights alone multiply plain activations, and gradients are plain", "[quant][tiles]") {
  const int64_t rows = 19, k = 32, n = 24;
  for (const int64_t tile : {0, 8}) {
    for (const std::string qtype : {"int8", "int4", "float8_e4m3fn"}) {
      INFO(qtype << " " << tile);
      auto rule = types(qtype, "", "");
      if (tile > 0) rule.weight_tile.contracted = {tile, 0};
      QuantProblem p(rows, k, n, rule);
      p.set(uniform_values(rows * k, 1), uniform_values(k * n, 2), uniform_values(rows * n, 3));
      p.forward();
      p.backward();
      const auto x = p.x().floats(), w = p.weight().floats(), g = p.g().floats();
      const ref::OperandLaw l = qtype == "int8" ? law<Int<8>>() : qtype == "int4" ? law<Int<4>>() : law<E4M3fn>();
      const auto qw = tiled(l, w, k, n, tile > 0 ? tile : k, 1), fx = wide(x), fw = wide(w), fg = wide(g);
      compare("y", p.y.floats(), product(rows, 0, k, n, [&](int64_t i, int64_t c) { return fx[at(i * k + c)]; }, [&](int64_t c, int64_t j) { return qw[at(c * n + j)]; }));
      compare("dx", p.dx.floats(), product(rows, 0, n, k, [&](int64_t i, int64_t c) { return fg[at(i * n + c)]; }, [&](int64_t c, int64_t j) { return fw[at(j * n + c)]; }));
      compare("dw", p.dw(), product(k, 0, rows, n, [&](int64_t i, int64_t c) { return fx[at(c * k + i)]; }, [&](int64_t c, int64_t j) { return fg[at(c * n + j)]; }));
    }
  }
}

TEST_CASE("a transform of both operands leaves a product what it is, but for the rounding", "[quant][tiles]") {
  const int64_t k = 32, n = 48;
  const std::vector<int> offsets{0, 5, 5, 48, 64};
  for (const bool grouped : {false, true}) {
    const int64_t rows = 64, groups = grouped ? 4 : 1;
    const auto x = uniform_values(rows * k, 1), w = uniform_values(groups * k * n, 2), g = [&] {
      auto v = uniform_values(rows * n, 3, 0.01f);
      for (int64_t j = 0; j < n; ++j) v[at(17 * n + j)] *= 300.0f;  // one token whose gradient is an outlier
      return v;
    }();
    std::vector<float> dw[3];
    for (int kind = 0; kind < 3; ++kind) {
      auto rule = kind == 0 ? types("int8", "int8", "") : types("int8", "int8", "int4");
      if (kind > 0) rule.act_residual_qtype = "int8", rule.original_residuals = true;
      if (kind == 2) rule.wgrad_transform = quant::Transform::hadamard16;
      QuantProblem p(rows, k, n, rule, grouped ? offsets : std::vector<int>{});
      p.set(x, w, g);
      p.forward();
      p.backward();
      dw[kind] = p.dw();
    }
    CHECK(dw[1] != dw[2]);  // other codes
    for (const int kind : {1, 2}) {
      double off = 0, size = 0;
      for (std::size_t i = 0; i < dw[0].size(); ++i) {
        off += std::pow(static_cast<double>(dw[kind][i]) - static_cast<double>(dw[0][i]), 2);
        size += std::pow(static_cast<double>(dw[0][i]), 2);
      }
      INFO((kind == 1 ? "plain " : "transformed ") << std::sqrt(off / size));
      CHECK(off < 0.1 * 0.1 * size);  // 15 codes for a column of gradients: a few percent
    }
  }
}

TEST_CASE("a product of no rows is legal in tiles and blocks, too", "[quant][tiles]") {  // reports D11, D12
  for (const bool grouped : {false, true}) {
    for (const std::string qtype : {"mxfp8", "int8"}) {
      INFO(qtype << (grouped ? " grouped" : " dense"));
      auto rule = types(qtype, qtype, qtype);
      if (qtype == "int8") rule.act_tile.contracted = rule.weight_tile.contracted = rule.wgrad_tile = {16, 0};
      QuantProblem p(0, 64, 32, rule, grouped ? std::vector<int>{0, 0, 0} : std::vector<int>{});
      p.set({}, uniform_values(p.group_count() * 64 * 32, 2), {});
      p.forward();
      p.backward();
      for (const float v : p.dw()) REQUIRE(v == 0.0f);
    }
  }
}

TEST_CASE("a share of an expert's tokens is no tile", "[quant][tiles]") {
  auto rule = types("int8", "int8", "int8");
  rule.wgrad_tile.share = 0.5;
  CHECK_NOTHROW(QuantProblem(8, 16, 16, rule));
  CHECK_THROWS_AS(QuantProblem(8, 16, 16, rule, {0, 3, 8}), UsageError);
}
