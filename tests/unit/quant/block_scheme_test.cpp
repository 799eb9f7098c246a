// A number format becomes a working scheme: rules like fp8_full's, codes of one byte, products that agree with the
// reference.
#include "quant/block_scheme.hpp"

#include "base/error.hpp"
#include "quant/plan.hpp"
#include "support/quant_problem.hpp"
#include "support/quant_sites.hpp"

#include <catch2/catch_test_macros.hpp>
#include <catch2/matchers/catch_matchers_string.hpp>

#include <cmath>

namespace {

using namespace kvant;
using namespace kvant::quant;

struct TestE3M4 {
  using storage = uint8_t;
  using Bits = Float<3, 4, FloatVariant::ieee>;
  static constexpr float max_finite = Bits::max_finite;
  KVANT_FUNCTION static storage encode(float v) { return Bits::encode(v); }
  KVANT_FUNCTION static float decode(storage code) { return Bits::decode(code); }
};

struct TestInt5 {  // codes are their own values: integer arithmetic
  using storage = int8_t;
  static constexpr float max_finite = 15.0f;
  KVANT_FUNCTION static storage encode(float v) { return Int<5>::encode(v); }
  KVANT_FUNCTION static float decode(storage code) { return static_cast<float>(code); }
};

/// Registers a format once for the process.
template <class Format>
Scheme& scheme(const char* name) {
  if (!plugin::Registry<Scheme>::contains(name)) plugin::Registry<Scheme>::add_builtin<BlockScheme<Format>>(name);
  return use_scheme(name);
}

template <class Format>
reference::OperandLaw law() {
  return {[](float v) { return static_cast<double>(Format::decode(Format::encode(v))); }, Format::max_finite, 1.0f,
          0.0f, Format::max_finite};
}

template <class Format>
void check_product(const char* name, const std::vector<int>& offsets) {
  const Scheme& s = scheme<Format>(name);
  const int64_t rows = 40, k = 19, n = 27, groups = offsets.empty() ? 1 : static_cast<int64_t>(offsets.size()) - 1;
  test::QuantProblem p(rows, k, n, test::types(name, name, name), offsets, DType::f32, &s);
  p.set(test::uniform_values(rows * k, 1), test::uniform_values(groups * k * n, 2),
        test::uniform_values(rows * n, 3, 1e-5f));
  p.forward();
  p.backward();
  reference::MatmulProblem r;
  r.rows = rows, r.k = k, r.n = n, r.groups = groups;
  r.offsets.assign(offsets.begin(), offsets.end());
  r.x = p.x().floats(), r.w = p.weight().floats(), r.g = p.g().floats();
  r.act = r.weight = r.grad_input = r.grad_weight = law<Format>();
  const reference::MatmulResult e = reference::quantized_matmul(r);
  const auto close = [](const std::vector<float>& got, const std::vector<double>& expected,
                        const std::vector<double>& size) {
    for (std::size_t i = 0; i < got.size(); ++i)
      if (!(std::fabs(got[i] - expected[i]) <= 5e-7 * size[i] + 1e-7 * std::fabs(expected[i]))) return false;
    return true;
  };
  CHECK(close(p.y.floats(), e.y, e.y_size));
  CHECK(close(p.dx.floats(), e.dx, e.dx_size));
  CHECK(close(p.dw(), e.dw, e.dw_size));
}

}  // namespace

TEST_CASE("a format of a plugin's own multiplies like the reference, dense and grouped", "[quant]") {
  check_product<TestE3M4>("test_e3m4", {});
  check_product<TestE3M4>("test_e3m4", {0, 7, 7, 31});
  check_product<TestInt5>("test_int5", {});
  check_product<TestInt5>("test_int5", {0, 7, 7, 31});
}

TEST_CASE("its codes are bytes; a format whose codes are their values is an integer", "[quant]") {
  const Codec& e3m4 = *scheme<TestE3M4>("test_e3m4").codec("test_e3m4");
  CHECK(size_of(e3m4.storage()) == 1);
  CHECK_FALSE(e3m4.readable_by_gemm());
  CHECK(e3m4.bound(true) == 15.5f);
  const Codec& int5 = *scheme<TestInt5>("test_int5").codec("test_int5");
  CHECK(int5.storage() == DType::i8);
  CHECK(int5.readable_by_gemm());
  CHECK(int5.bound(false) == 15.0f);
  CHECK(int5.bound(true) == 15.5f);
  CHECK(scheme<TestInt5>("test_int5").codec("something_else") == nullptr);
}

TEST_CASE("a block scheme covers layers, experts, MTP and logits as the flags say", "[quant]") {
  scheme<TestE3M4>("test_e3m4");
  test::QuantSites sites;
  config::QuantSettings settings;
  settings.quantization = "test_e3m4";
  settings.quantize_mtp = settings.quantize_logits_proj = true;
  const Plan plan = Plan::resolve(sites.table, settings);
  for (const Decision& d : plan.decisions()) {
    const bool plain = d.site->kind == SiteKind::attention || d.site->path.ends_with("/gate");
    CHECK((d.recipe == nullptr) == plain);
    if (d.recipe) CHECK(d.recipe->grad_weight.qtype == "test_e3m4");
  }
  settings.bwd_quantization_dtype = "e4m3";
  CHECK_THROWS_WITH(Plan::resolve(sites.table, settings), Catch::Matchers::ContainsSubstring("bwd_quantization_dtype"));
}

TEST_CASE("two schemes of one run do not read each other's formats", "[quant]") {
  test::QuantSites sites;
  scheme<TestInt5>("test_int5");
  scheme<TestE3M4>("test_e3m4");
  config::QuantSettings settings;
  settings.quantization = "test_e3m4";
  Rule rule = test::types("test_int5", "test_int5", "test_int5");
  rule.module_path = ".*/wo";
  CHECK_THROWS_WITH(Plan::resolve(sites.table, settings, {rule}),
                    Catch::Matchers::ContainsSubstring("\"test_int5\" is not known"));
}

namespace {

/// A scheme that throws what no scheme should.
class Thrower final : public Scheme {
 public:
  std::string description() const override { return "throws"; }
  std::vector<Rule> rules(const config::QuantSettings&) const override { throw std::out_of_range("index 7"); }
};

}  // namespace

TEST_CASE("a scheme that throws is named", "[quant]") {
  plugin::Registry<Scheme>::add_builtin<Thrower>("test_thrower");
  test::QuantSites sites;
  config::QuantSettings settings;
  settings.quantization = "test_thrower";
  CHECK_THROWS_WITH(Plan::resolve(sites.table, settings), Catch::Matchers::ContainsSubstring("test_thrower") &&
                                                              Catch::Matchers::ContainsSubstring("index 7"));
}
