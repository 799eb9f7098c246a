#include "kernels/attention.hpp"

#include "kernels/detail/attention_block.hpp"
#include "kernels/isa/isa.hpp"
#include "reference/attention.hpp"
#include "support/attention_case.hpp"

#include <catch2/catch_test_macros.hpp>
#include <catch2/generators/catch_generators.hpp>
#include <catch2/matchers/catch_matchers_string.hpp>

using namespace kvant;
using kvant::test::AttentionCase;
using kvant::test::AttentionResult;
using kvant::test::AttentionTensor;

namespace {

double absmax(const std::vector<double>& x) {
  double m = 0;
  for (const double a : x) m = std::max(m, std::abs(a));
  return m;
}

/// |a - b| <= relative * |b| + absolute * max(1, max |b|) everywhere (and nothing is NaN). 1, because the terms of
/// every sum are of that size even where the sum cancels to nothing, as a gradient of one key's softmax does.
void check_close(const char* name, const std::vector<double>& a, const std::vector<double>& b, double relative,
                 double absolute) {
  REQUIRE(a.size() == b.size());
  const double floor = absolute * std::max(1.0, absmax(b));
  double worst = 0;
  std::size_t at = 0;
  for (std::size_t i = 0; i < a.size(); ++i) {
    const double excess = std::abs(a[i] - b[i]) / (relative * std::abs(b[i]) + floor);
    if (!(excess <= worst)) worst = excess, at = i;
  }
  INFO(name << "[" << at << "] is " << a[at] << ", should be " << b[at] << "; " << worst << " times the tolerance");
  CHECK(worst <= 1.0);
}

/// The kernels against the reference. Where storage is bf16 the reference's backward is given the kernel's rounded out.
AttentionResult check_case(AttentionCase& c) {
  Arena workspace("attention test");
  const AttentionResult got = c.run(Exec{}, workspace);
  CHECK(workspace.used() == 0);
  const bool narrow = c.dtype == DType::bf16;
  const double relative = narrow ? 0x1p-8 : 0, absolute = narrow ? 1e-5 : 4e-6;
  reference::AttentionOutput want = reference::attention_forward(c.input);
  check_close("out", got.out, want.out, relative, absolute);
  check_close("lse", got.lse, want.lse, 2e-7, 1e-6);
  if (narrow) want.out = got.out;
  const reference::AttentionGradient g = reference::attention_backward(c.input, want, c.dout);
  check_close("dq", got.dq, g.dq, relative, absolute);
  check_close("dk", got.dk, g.dk, relative, absolute);
  check_close("dv", got.dv, g.dv, relative, absolute);
  return got;
}

/// Documents of the given lengths one after another, segments 1, 2, ...; the rest of the row is padding (segment 0).
std::vector<int> packed(const AttentionShape& s, std::initializer_list<int64_t> lengths) {
  std::vector<int> segment(static_cast<std::size_t>(s.batch * s.seq), 0);
  for (int64_t b = 0; b < s.batch; ++b) {
    std::size_t at = static_cast<std::size_t>(b * s.seq);
    int id = 1;
    for (const int64_t length : lengths) {
      for (int64_t i = 0; i < length; ++i) segment[at++] = id;
      ++id;
    }
  }
  return segment;
}

double loss(const reference::AttentionInput& x, const std::vector<double>& dout) {
  const auto y = reference::attention_forward(x);
  double sum = 0;
  for (std::size_t i = 0; i < dout.size(); ++i) sum += y.out[i] * dout[i];
  return sum;
}

}  // namespace

TEST_CASE("the reference's gradients of attention are those of finite differences") {
  const AttentionShape s{2, 4, 2, 7, 5, 3};
  AttentionCase c(DType::f32, s);
  c.input.segment = {1, 1, 2, 2, 2, 0, 0, 1, 1, 1, 1, 1, 1, 1};
  const auto y = reference::attention_forward(c.input);
  const auto g = reference::attention_backward(c.input, y, c.dout);
  const auto check = [&](std::vector<double>& x, const std::vector<double>& gradient) {
    for (std::size_t i = 0; i < x.size(); ++i) {
      const double before = x[i], h = 1e-5;
      x[i] = before + h;
      const double up = loss(c.input, c.dout);
      x[i] = before - h;
      const double down = loss(c.input, c.dout);
      x[i] = before;
      CHECK(std::abs((up - down) / (2 * h) - gradient[i]) < 1e-8);
    }
  };
  check(c.input.q, g.dq);
  check(c.input.k, g.dk);
  check(c.input.v, g.dv);
}

TEST_CASE("softmax's exponential is within one unit in the last place, and 0 where nothing is left") {
  using attention_detail::softmax_exp;
  double worst = 0;
  for (uint32_t bits = bits_of(-0.0f); bits < bits_of(-87.0f); bits += 1009) {
    const float x = float_of(bits);
    const double want = std::exp(static_cast<double>(x));
    const auto nearest = static_cast<float>(want);
    const double unit = static_cast<double>(std::nextafter(nearest, 2.0f)) - nearest;
    worst = std::max(worst, std::abs(softmax_exp(x) - want) / unit);
  }
  CHECK(worst <= 1.0);
  CHECK(softmax_exp(0.0f) == 1.0f);
  CHECK(softmax_exp(-87.0f) > 0.0f);
  for (const float x : {-87.1f, -1e4f, -std::numeric_limits<float>::max(), -std::numeric_limits<float>::infinity()})
    CHECK(softmax_exp(x) == 0.0f);
  CHECK(std::isnan(softmax_exp(std::nanf(""))));
}

TEST_CASE("attention agrees with the reference on every length around the blocks") {
  const DType dtype = GENERATE(DType::f32, DType::bf16);
  const int64_t seq = GENERATE(1, 2, 15, 16, 17, 63, 64, 65, 127, 129, 200);
  CAPTURE(name_of(dtype), seq);
  AttentionCase c(dtype, {2, 2, 2, seq, 24, 16});
  check_case(c);
}

TEST_CASE("attention agrees with the reference whatever the widths of the heads") {
  const DType dtype = GENERATE(DType::f32, DType::bf16);
  const int64_t qk_dim = GENERATE(1, 7, 48, 96, 300), v_dim = GENERATE(1, 33, 64);
  CAPTURE(name_of(dtype), qk_dim, v_dim);
  AttentionCase c(dtype, {1, 2, 1, 130, qk_dim, v_dim});
  check_case(c);
}

TEST_CASE("attention shares a key and value head among its group of query heads") {
  const DType dtype = GENERATE(DType::f32, DType::bf16);
  const int64_t kv_heads = GENERATE(1, 2, 3, 6);
  CAPTURE(name_of(dtype), kv_heads);
  AttentionCase c(dtype, {2, 6, kv_heads, 75, 12, 20});
  check_case(c);
}

TEST_CASE("attention on every instruction set gives the same bits") {
  AttentionCase c(DType::f32, {1, 2, 2, 150, 40, 24});
  Arena workspace("attention test");
  const IsaScope portable(Isa::portable);
  const AttentionResult want = c.run(Exec{}, workspace);
  for (const Isa isa : {Isa::avx2, Isa::avx512}) {
    if (!cpu_has(isa)) continue;
    const IsaScope scope(isa);
    const AttentionResult got = c.run(Exec{}, workspace);
    CAPTURE(name_of(isa));
    CHECK(got.out == want.out);
    CHECK(got.lse == want.lse);
    CHECK(got.dq == want.dq);
    CHECK(got.dk == want.dk);
    CHECK(got.dv == want.dv);
  }
}

TEST_CASE("attention stays inside documents") {
  const DType dtype = GENERATE(DType::f32, DType::bf16);
  CAPTURE(name_of(dtype));
  AttentionCase c(dtype, {2, 2, 1, 300, 24, 16});
  SECTION("documents and padding") { c.input.segment = packed(c.input.shape, {1, 62, 1, 70, 64, 3, 50}); }
  SECTION("documents that begin on blocks, whose pairs are skipped") {
    c.input.segment = packed(c.input.shape, {64, 128, 64});
  }
  SECTION("padding alone") { c.input.segment = packed(c.input.shape, {}); }
  SECTION("one token each") {
    for (int i = 0; i < 600; ++i) c.input.segment.push_back(i % 300 + 1);
  }
  SECTION("segments that return") {
    for (int i = 0; i < 600; ++i) c.input.segment.push_back(i * 7 / 5 % 3);
  }
  check_case(c);
}

TEST_CASE("padding attends to padding as a document would, so nothing distinguishes segment 0") {
  AttentionCase c(DType::f32, {1, 1, 1, 90, 8, 8});
  Arena workspace("attention test");
  c.input.segment = packed(c.input.shape, {50});
  const AttentionResult zero = c.run(Exec{}, workspace);
  for (int& s : c.input.segment)
    if (s == 0) s = 9;
  const AttentionResult nine = c.run(Exec{}, workspace);
  CHECK(zero.out == nine.out);
  CHECK(zero.dk == nine.dk);
}

TEST_CASE("one document is what no segments are, bit for bit") {
  AttentionCase c(DType::f32, {1, 2, 2, 140, 8, 8});
  Arena workspace("attention test");
  const AttentionResult none = c.run(Exec{}, workspace);
  c.input.segment = packed(c.input.shape, {140});
  const AttentionResult one = c.run(Exec{}, workspace);
  CHECK(none.out == one.out);
  CHECK(none.dq == one.dq);
  CHECK(none.dk == one.dk);
  CHECK(none.dv == one.dv);
}

TEST_CASE("one score of +-1e4 in any place of a block rules its row") {
  const DType dtype = GENERATE(DType::f32, DType::bf16);
  const double outlier = GENERATE(1e4, -1e4);
  const int64_t seq = 83;  // one full block, one vector of lanes, 3 lanes more
  for (int64_t key = 0; key < seq; ++key) {
    CAPTURE(name_of(dtype), outlier, key);
    AttentionCase c(dtype, {1, 1, 1, seq, 8, 8});
    for (int64_t i = 0; i < seq; ++i) {
      c.input.q[static_cast<std::size_t>(i * 8)] = 1;
      c.input.k[static_cast<std::size_t>(i * 8)] = i == key ? outlier : 0;
    }
    check_case(c);
  }
}

TEST_CASE("equal scores give the mean") {
  const int64_t seq = GENERATE(1, 64, 77);
  AttentionCase c(DType::f32, {1, 1, 1, seq, 8, 4});
  std::fill(c.input.q.begin(), c.input.q.end(), 0.0);
  const AttentionResult got = check_case(c);
  for (std::size_t col = 0; col < 4; ++col) {
    double mean = 0;
    for (std::size_t j = 0; j < static_cast<std::size_t>(seq); ++j)
      mean += c.input.v[j * 4 + col] / static_cast<double>(seq);
    CHECK(std::abs(got.out[static_cast<std::size_t>(seq - 1) * 4 + col] - mean) < 1e-6);
  }
  CHECK(std::abs(got.lse.back() - std::log(static_cast<double>(seq))) < 1e-6);
}

TEST_CASE("large scores neither overflow nor lose the small ones") {
  AttentionCase c(DType::f32, {1, 2, 2, 130, 16, 8}, 30.0);
  Arena workspace("attention test");
  const AttentionResult got = c.run(Exec{}, workspace);
  const auto want = reference::attention_forward(c.input);
  // A score of 100 carries a rounding error of about 1e-5 into its weight.
  check_close("out", got.out, want.out, 0, 1e-4);
  check_close("lse", got.lse, want.lse, 2e-7, 1e-6);
}

TEST_CASE("NaN in a query shows in its row and nowhere else") {
  AttentionCase c(DType::f32, {1, 1, 1, 70, 8, 8});
  c.input.q[33 * 8 + 2] = std::nan("");
  Arena workspace("attention test");
  const AttentionResult got = c.run(Exec{}, workspace);
  for (std::size_t i = 0; i < 70; ++i) {
    CHECK(std::isnan(got.out[i * 8]) == (i == 33));
    CHECK(std::isnan(got.lse[i]) == (i == 33));
  }
}

TEST_CASE("attention asks for memory once") {
  AttentionCase c(DType::bf16, {2, 2, 2, 100, 16, 8});
  Arena workspace("attention test");
  c.run(Exec{}, workspace);
  const std::size_t before = workspace.growth_count();
  c.run(Exec{}, workspace);
  CHECK(workspace.growth_count() == before);
}

TEST_CASE("attention refuses tensors that do not fit its shape") {
  using Catch::Matchers::ContainsSubstring;
  const AttentionShape s{1, 2, 1, 8, 4, 6};
  Arena ws("attention test");
  const Exec exec;
  const auto tensor = [](const Shape& shape, DType dtype = DType::f32) { return AttentionTensor(dtype, shape); };
  const auto q = tensor({1, 2, 8, 4}), k = tensor({1, 1, 8, 4}), v = tensor({1, 1, 8, 6}), out = tensor({1, 8, 2, 6}),
             lse = tensor({1, 2, 8});
  const auto wrong = tensor({1, 2, 8, 3}), narrow = tensor({1, 1, 8, 4}, DType::bf16),
             half = tensor({1, 2, 8, 4}, DType::f16);
  const TensorView none;
  const auto forward = [&](const AttentionShape& shape, const TensorView& q_, const TensorView& k_,
                           const TensorView& segment) {
    attention_forward(exec, shape, q_, k_, v.view(), segment, out.view(), lse.view(), ws);
  };
  CHECK_THROWS_WITH(forward({1, 2, 1, 0, 4, 6}, q.view(), k.view(), none),
                    ContainsSubstring("positive sizes; it got batch 1, heads 2, kv_heads 1, seq 0"));
  CHECK_THROWS_WITH(forward({1, 3, 2, 8, 4, 6}, q.view(), k.view(), none),
                    ContainsSubstring("multiple of the key/value heads; it got 3 and 2"));
  CHECK_THROWS_WITH(forward({1 << 20, 1 << 12, 1, 8, 4, 6}, q.view(), k.view(), none), ContainsSubstring("in 31 bits"));
  CHECK_THROWS_WITH(
      forward(s, wrong.view(), k.view(), none),
      ContainsSubstring(
          "needs q as a contiguous float32 tensor of shape [1, 2, 8, 4]; it got float32 of shape [1, 2, 8, 3]"));
  CHECK_THROWS_WITH(forward(s, half.view(), k.view(), none), ContainsSubstring("float16"));
  CHECK_THROWS_WITH(forward(s, q.view(), narrow.view(), none), ContainsSubstring("needs k as a contiguous float32"));
  CHECK_THROWS_WITH(forward(s, q.view(), k.view(), lse.view()),
                    ContainsSubstring("needs segment as a contiguous int32 tensor of shape [1, 8]"));
  CHECK_THROWS_WITH(forward(s, tensor({1, 2, 8, 8}).view().slice_cols(0, 4), k.view(), none),
                    ContainsSubstring(", strided"));
  const auto backward = [&](const TensorView& dout, const TensorView& dq) {
    attention_backward(exec, s, q.view(), k.view(), v.view(), none, out.view(), lse.view(), dout, dq, k.view(),
                       v.view(), ws);
  };
  CHECK_THROWS_WITH(backward(q.view(), q.view()), ContainsSubstring("needs dout as"));
  CHECK_THROWS_WITH(backward(out.view(), k.view()), ContainsSubstring("needs dq as"));
}
