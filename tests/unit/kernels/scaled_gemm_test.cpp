#include "kernels/scaled_gemm.hpp"

#include "base/kokkos.hpp"
#include "kernels/detail/element_gemm.hpp"
#include "kernels/detail/gemm_problem.hpp"
#include "numerics/formats.hpp"
#include "support/gemm_case.hpp"

#include <catch2/catch_test_macros.hpp>
#include <catch2/generators/catch_generators.hpp>
#include <catch2/matchers/catch_matchers_string.hpp>

using namespace kvant;
using namespace kvant::test;
using Catch::Matchers::ContainsSubstring;

namespace {

/// Every int8 code, -128 more often than chance would have it.
Values random_codes(std::size_t n, uint64_t seed) {
  Values x(n);
  const std::vector<int> r = random_ints(n, seed, 300);
  for (std::size_t i = 0; i < n; ++i) x[i] = std::max(r[i] - 172, -128);
  return x;
}

Values positive(std::size_t n, uint64_t seed) {
  Values x = random_values(n, seed);
  for (double& v : x) v = static_cast<float>(std::fabs(v) + 0.01);
  return x;
}

float scale(const Values& s, std::size_t i) { return static_cast<float>(s.empty() ? 1.0 : s.size() == 1 ? s[0] : s[i]); }

/// (acc * s_lhs[i]) * s_rhs[j] in f32, for exact acc.
Values scaled(Values acc, std::size_t n, const Values& lhs, const Values& rhs) {
  for (std::size_t i = 0; i < acc.size(); ++i) acc[i] = static_cast<float>(acc[i]) * scale(lhs, i / n) * scale(rhs, i % n);
  return acc;
}

Values added(const Values& before, const Values& x) {
  Values y(x.size());
  for (std::size_t i = 0; i < x.size(); ++i) y[i] = static_cast<float>(before[i]) + static_cast<float>(x[i]);
  return y;
}

/// Scales in execution memory: none, one for all, or one each.
struct Scales {
  Values values;
  Stored stored;
  Scales(int how, std::size_t n, uint64_t seed)
      : values(how == 0 ? Values{} : positive(how == 1 ? 1 : n, seed)), stored(DType::f32, {static_cast<int64_t>(values.size())}, values) {}
  TensorView view() const { return values.empty() ? TensorView{} : stored.view(); }
};

/// Memory for a packed operand, on its boundary.
struct Packed {
  Arena arena{"pack test"};
  PackedOperand operand;
  Packed(const TensorView& codes, bool trans, int64_t block = 0) {
    operand.block = block;
    operand.bytes = packed_bytes(codes.dtype, codes.shape, trans, block);
    operand.data = arena.allocate_bytes(operand.bytes);
    pack(Exec{}, codes, trans, operand);
    Kokkos::fence();
  }
};

/// Codes that a build with floating-point traps cannot multiply: infinities by the zeros of a padded vector, and the
/// signalling NaN among the f16 that e5m2 codes are.
bool traps([[maybe_unused]] DType type, [[maybe_unused]] std::size_t code) {
#ifdef KVANT_FPE
  return type == DType::e5m2 && (code & 0x7f) >= 0x7c;
#else
  return false;
#endif
}

const int64_t row_counts[] = {1, 3, 4, 5, 6, 7, 8, 9, 12, 13, 65};
const int64_t column_counts[] = {1, 7, 8, 9, 15, 16, 17, 24, 25, 32, 33, 47, 48, 49, 67, 97};
const int64_t depths[] = {0, 1, 2, 3, 4, 5, 15, 16, 17, 31, 33, 63, 67};

}  // namespace

TEST_CASE("int8 products are exact for every remainder, orientation, scale and ISA, -128 included") {
  Arena workspace("scaled gemm test");
  for (const int64_t m : row_counts)
    for (const int64_t n : column_counts)
      for (const int64_t k : depths) {
        const uint32_t mix = philox(9, 0, static_cast<uint64_t>(m * 7 + n * 13 + k * 29)).word[0];
        const bool trans_a = mix & 1, trans_b = mix & 2, add = mix & 4, packed = mix & 8;
        const auto um = static_cast<std::size_t>(m), un = static_cast<std::size_t>(n), uk = static_cast<std::size_t>(k);
        CAPTURE(m, n, k, trans_a, trans_b, add, packed);
        const Codes a(DType::i8, trans_a ? Shape{k, m} : Shape{m, k}, random_codes(um * uk, 1), mix & 16 ? 5 : 0);
        const Codes b(DType::i8, trans_b ? Shape{n, k} : Shape{k, n}, random_codes(uk * un, 2), mix & 32 ? 3 : 0);
        const Scales sa(static_cast<int>(mix >> 8) % 3, um, 3), sb(static_cast<int>(mix >> 12) % 3, un, 4);
        const Values before = random_integers(um * un, 5);
        const Values acc = scaled(reference::gemm({um, un, uk, trans_a, trans_b}, a.values(), b.values()), un, sa.values, sb.values);
        const Values want = add ? added(before, acc) : acc;
        for (const Isa isa : isas_here()) {
          const IsaScope scope(isa);
          INFO("ISA " << name_of(isa));
          Stored c(DType::f32, {m, n}, mix & 64 ? 2 : 0);
          if (add) c.put(before);
          const Packed ready(b, trans_b);
          scaled_gemm(Exec{}, {a, trans_a, sa.view(), nullptr}, {b, trans_b, sb.view(), packed ? &ready.operand : nullptr}, c,
                      add ? Write::accumulate : Write::overwrite, workspace);
          Kokkos::fence();
          REQUIRE(c.get() == want);
          REQUIRE(c.padding_untouched());
        }
      }
  CHECK(workspace.used() == 0);
}

TEST_CASE("int8 sums stay exact up to the longest contracted axis and are refused beyond") {
  Arena workspace("scaled gemm test");
  const double low = GENERATE(-128.0, 127.0), high = GENERATE(-128.0, 127.0);
  const int64_t k = max_int8_contraction, m = 2, n = 17;
  const Codes a(DType::i8, {m, k}, Values(static_cast<std::size_t>(m * k), low)), b(DType::i8, {k, n}, Values(static_cast<std::size_t>(k * n), high));
  for (const Isa isa : isas_here()) {
    const IsaScope scope(isa);
    const Stored c(DType::f32, {m, n});
    scaled_gemm(Exec{}, {a, false, {}, nullptr}, {b, false, {}, nullptr}, c, Write::overwrite, workspace);
    Kokkos::fence();
    CHECK(c.get() == Values(static_cast<std::size_t>(m * n), static_cast<float>(low * high * static_cast<double>(k))));
  }
  const TensorView longer = make_view(a.view().data, DType::i8, {1, k + 1}), column = make_view(a.view().data, DType::i8, {k + 1, 1});
  const Stored one(DType::f32, {1, 1});
  CHECK_THROWS_WITH(scaled_gemm(Exec{}, {longer, false, {}, nullptr}, {column, false, {}, nullptr}, one, Write::overwrite, workspace),
                    ContainsSubstring("131072 long; more than 131071 could overflow"));
}

TEST_CASE("every code of fp8 and fp4 is decoded exactly by every ISA") {
  Arena workspace("scaled gemm test");
  const DType type = GENERATE(DType::e4m3fn, DType::e5m2, DType::e4m3fnuz, DType::e5m2fnuz, DType::e2m1);
  const auto decoded = [&](uint8_t code) {
    switch (type) {
      case DType::e4m3fn: return E4M3fn::decode(code);
      case DType::e5m2: return E5M2::decode(code);
      case DType::e4m3fnuz: return E4M3fnuz::decode(code);
      case DType::e5m2fnuz: return E5M2fnuz::decode(code);
      default: return E2M1::decode(code);
    }
  };
  const Stored one(DType::f32, {1, 1}, Values{1.0});
  for (const bool trans : {false, true})
    for (const Isa isa : isas_here()) {
      const IsaScope scope(isa);
      CAPTURE(name_of(type), name_of(isa), trans);
      std::vector<uint8_t> codes(256);
      for (std::size_t i = 0; i < 256; ++i) codes[i] = traps(type, i) ? uint8_t{0} : static_cast<uint8_t>(type == DType::e2m1 ? i % 16 : i);
      const Codes memory(DType::i8, {256, 1}, Values(256, 0.0));
      Kokkos::deep_copy(Kokkos::View<uint8_t*, MemSpace, Kokkos::MemoryUnmanaged>(static_cast<uint8_t*>(memory.view().data), 256),
                        Kokkos::View<uint8_t*, Kokkos::HostSpace, Kokkos::MemoryUnmanaged>(codes.data(), 256));
      const TensorView view = make_view(memory.view().data, type, trans ? Shape{1, 256} : Shape{256, 1});
      const Stored left(DType::f32, {256, 1}), right(DType::f32, {1, 256});
      scaled_gemm(Exec{}, {view, trans, {}, nullptr}, {one, false, {}, nullptr}, left, Write::overwrite, workspace);
      scaled_gemm(Exec{}, {one, false, {}, nullptr}, {view, !trans, {}, nullptr}, right, Write::overwrite, workspace);
      Kokkos::fence();
      for (std::size_t i = 0; i < 256; ++i) {
        const float want = decoded(codes[i]);
        for (const double got : {left.get()[i], right.get()[i]}) {
          INFO("code " << i << ": got " << got << ", expected " << want);
          REQUIRE((got == want || (std::isnan(got) && std::isnan(want))));
        }
      }
    }
}

TEST_CASE("products of other codes agree for every pair of types, exact on integers and bit by bit with the portable kernel") {
  Arena workspace("scaled gemm test");
  const DType type_a = GENERATE(DType::i8, DType::e4m3fn, DType::e5m2, DType::f32), type_b = GENERATE(DType::i8, DType::e4m3fn, DType::e5m2, DType::bf16);
  const bool trans_a = GENERATE(false, true), trans_b = GENERATE(false, true), bf16 = GENERATE(false, true);
  const int64_t m = 53, n = 67, k = 300;
  CAPTURE(name_of(type_a), name_of(type_b), trans_a, trans_b, bf16);
  const auto limit = [](DType t) { return t == DType::e5m2 ? 7 : 15; };
  const Codes a(type_a, trans_a ? Shape{k, m} : Shape{m, k}, random_integers(53 * 300, 1, limit(type_a)), 3);
  const Codes b(type_b, trans_b ? Shape{n, k} : Shape{k, n}, random_integers(300 * 67, 2, limit(type_b)), 1);
  const Scales sa(2, 53, 3), sb(2, 67, 4);
  const Values acc = reference::gemm({53, 67, 300, trans_a, trans_b}, a.values(), b.values());
  Values want = scaled(acc, 67, sa.values, sb.values);
  if (bf16)
    for (double& v : want) v = to_float(to_bf16(static_cast<float>(v)));
  const DType type_c = bf16 ? DType::bf16 : DType::f32;
  for (const Isa isa : isas_here()) {
    const IsaScope scope(isa);
    INFO("ISA " << name_of(isa));
    const Stored c(type_c, {m, n});
    scaled_gemm(Exec{}, {a, trans_a, sa.view(), nullptr}, {b, trans_b, sb.view(), nullptr}, c, Write::overwrite, workspace);
    Kokkos::fence();
    REQUIRE(c.get() == want);
  }
  detail::GemmProblem p;
  const Stored twin(type_c, {m, n});
  p.m = m, p.n = n, p.k = k;
  p.a = {a.view().data, type_a, a.view().stride[0], trans_a, 0};
  p.b = {b.view().data, type_b, b.view().stride[0], trans_b, 0};
  p.scale_a = {sa.view().as<float>(), 1, 0};
  p.scale_b = {sb.view().as<float>(), 1, 0};
  p.c = {twin.view().data, type_c, n, 0, false};
  detail::element_gemm(Exec{}, p);
  Kokkos::fence();
  CHECK(twin.get() == want);
}

TEST_CASE("grouped scaled products are exact for every grouping, type, scale and ISA") {
  Arena workspace("scaled gemm test");
  const std::vector<int> offsets = GENERATE(std::vector<int>{0, 9, 30, 47}, std::vector<int>{0, 0, 47, 47}, std::vector<int>{0, 20, 20, 31},
                                            std::vector<int>{0, 0, 0, 0});
  const DType type = GENERATE(DType::i8, DType::e4m3fn);
  const bool trans_b = GENERATE(false, true), add = GENERATE(false, true), bf16 = GENERATE(false, true);
  const int how_a = GENERATE(0, 2), how_b = GENERATE(1, 2, 3);
  const int64_t rows = 47, k = 37, n = 53;
  const auto codes = [&](std::size_t count, uint64_t seed) { return type == DType::i8 ? random_codes(count, seed) : random_integers(count, seed); };
  const Codes a(type, {rows, k}, codes(47 * 37, 1), 3), dy(type, {rows, n}, codes(47 * 53, 2));
  const Codes b(type, trans_b ? Shape{3, n, k} : Shape{3, k, n}, codes(3 * 37 * 53, 3));
  const Scales sa(how_a, 47, 4), sk(how_a, 37, 5), sb(how_b == 3 ? 2 : how_b, how_b == 3 ? 3 * 53 : 53, 6);
  const Stored where({4}, offsets);
  const DType type_c = bf16 ? DType::bf16 : DType::f32;
  const Values before = random_integers(47 * 53, 7), before_dw = random_integers(3 * 37 * 53, 8);
  const auto round = [&](Values x) {
    if (bf16)
      for (double& v : x) v = to_float(to_bf16(static_cast<float>(v)));
    return x;
  };
  // Products of exact sums, one group at a time, in f32 and in the order of the contract.
  Values want(47 * 53, 0.0), want_dw;
  for (std::size_t g = 0; g < 3; ++g) {
    const auto first = static_cast<std::size_t>(offsets[g]), count = static_cast<std::size_t>(offsets[g + 1]) - first;
    const Values s = reference::scale_of_group(sb.values, g, 53);
    const Values mine = sa.values.empty() ? Values{} : reference::part(sa.values, first, count);
    const Values y = scaled(reference::gemm({count, 53, 37, false, trans_b}, reference::part(a.values(), first * 37, count * 37),
                                            reference::part(b.values(), g * 37 * 53, 37 * 53)), 53, mine, s);
    std::copy(y.begin(), y.end(), want.begin() + static_cast<std::ptrdiff_t>(first * 53));
    const Values w = scaled(reference::gemm({37, 53, count, true, false}, reference::part(a.values(), first * 37, count * 37),
                                            reference::part(dy.values(), first * 53, count * 53)), 53, sk.values, s);
    want_dw.insert(want_dw.end(), w.begin(), w.end());
  }
  if (add) want = added(before, want), want_dw = added(before_dw, want_dw);
  for (const Isa isa : isas_here()) {
    const IsaScope scope(isa);
    CAPTURE(name_of(isa), name_of(type), trans_b, add, bf16, how_a, how_b, offsets);
    const Packed ready(b, trans_b);
    Stored c(type_c, {rows, n}), dw(type_c, {3, k, n});
    if (add) c.put(before), dw.put(before_dw);
    const Write mode = add ? Write::accumulate : Write::overwrite;
    scaled_grouped_gemm(Exec{}, {a, false, sa.view(), nullptr}, {b, trans_b, sb.view(), &ready.operand}, where, c, mode, workspace);
    scaled_grouped_gemm_wgrad(Exec{}, {a, false, sk.view(), nullptr}, {dy, false, sb.view(), nullptr}, where, dw, mode, workspace);
    Kokkos::fence();
    REQUIRE(c.get() == round(want));
    REQUIRE(dw.get() == round(want_dw));
  }
}

namespace {

/// Scales by block [blocks, n], or one for all.
struct BlockScales {
  Values values;
  Stored stored;
  bool one;
  BlockScales(bool whole, std::size_t blocks, std::size_t n, uint64_t seed)
      : values(positive(whole ? 1 : blocks * n, seed)), stored(DType::f32, {static_cast<int64_t>(values.size())}, values), one(whole) {}
  Values of(std::size_t block, std::size_t n) const { return one ? values : reference::part(values, block * n, n); }
};

/// Steps [first, first + count) of an operand with `lanes` other indices, as a matrix of its own.
Values steps_of(const Values& x, std::size_t steps, std::size_t lanes, bool steps_are_rows, std::size_t first, std::size_t count) {
  Values y;
  for (std::size_t i = 0; i < (steps_are_rows ? count : lanes); ++i)
    for (std::size_t j = 0; j < (steps_are_rows ? lanes : count); ++j) y.push_back(steps_are_rows ? x[(first + i) * lanes + j] : x[i * steps + first + j]);
  return y;
}

}  // namespace

TEST_CASE("int8 products in blocks are the sum of each block's exact sum with its scales, packed or not, on every ISA") {
  Arena workspace("scaled gemm test");
  for (const int64_t m : {1, 5, 13, 33})
    for (const int64_t n : {7, 16, 49, 65})
      for (const int64_t block : {1, 3, 4, 16, 33})
        for (const int64_t blocks : {2, 5}) {
          const int64_t k = block * blocks;
          const uint32_t mix = philox(10, 0, static_cast<uint64_t>(m * 7 + n * 13 + k * 29)).word[0];
          const bool trans_a = mix & 1, trans_b = mix & 2, add = mix & 4, packed = mix & 8, bf16 = mix & 16;
          CAPTURE(m, n, block, blocks, trans_a, trans_b, add, packed, bf16);
          const auto um = static_cast<std::size_t>(m), un = static_cast<std::size_t>(n), uk = static_cast<std::size_t>(k), step = static_cast<std::size_t>(block);
          const Codes a(DType::i8, trans_a ? Shape{k, m} : Shape{m, k}, random_codes(um * uk, 1), 3);
          const Codes b(DType::i8, trans_b ? Shape{n, k} : Shape{k, n}, random_codes(uk * un, 2), 1);
          const BlockScales sa(mix & 32, static_cast<std::size_t>(blocks), um, 3), sb(mix & 64, static_cast<std::size_t>(blocks), un, 4);
          Values want;
          for (std::size_t q = 0; q < static_cast<std::size_t>(blocks); ++q) {
            const Values part = scaled(reference::gemm({um, un, step, trans_a, trans_b}, steps_of(a.values(), uk, um, trans_a, q * step, step),
                                                       steps_of(b.values(), uk, un, !trans_b, q * step, step)), un, sa.of(q, um), sb.of(q, un));
            want = q == 0 ? part : added(want, part);
          }
          const Values before = random_integers(um * un, 5);
          if (add) want = added(before, want);
          if (bf16)
            for (double& v : want) v = to_float(to_bf16(static_cast<float>(v)));
          for (const Isa isa : isas_here()) {
            const IsaScope scope(isa);
            INFO("ISA " << name_of(isa));
            Stored c(bf16 ? DType::bf16 : DType::f32, {m, n}, 2);
            if (add) c.put(before);
            const Packed ready(b, trans_b, block);
            ScaledOperand lhs{a, trans_a, sa.stored.view(), nullptr};
            lhs.block = block;
            scaled_gemm(Exec{}, lhs, {b, trans_b, sb.stored.view(), packed ? &ready.operand : nullptr}, c, add ? Write::accumulate : Write::overwrite, workspace);
            Kokkos::fence();
            REQUIRE(c.get() == want);
            REQUIRE(c.padding_untouched());
          }
        }
}

TEST_CASE("scales of blocks go into the values of other codes, the same bits on every ISA and in the portable kernel") {
  Arena workspace("scaled gemm test");
  const DType type_a = GENERATE(DType::e4m3fn, DType::i8, DType::f32), type_b = GENERATE(DType::e4m3fn, DType::e5m2);
  const bool trans_a = GENERATE(false, true), trans_b = GENERATE(false, true), whole_a = GENERATE(false, true);
  const int64_t block = GENERATE(8, 20, 100, 300), m = 19, n = 71, k = 600;  // a packed block of 256 ends within scales, and they within it
  CAPTURE(name_of(type_a), name_of(type_b), trans_a, trans_b, whole_a, block);
  const auto blocks = static_cast<std::size_t>(k / block), step = static_cast<std::size_t>(block);
  const Codes a(type_a, trans_a ? Shape{k, m} : Shape{m, k}, random_integers(19 * 600, 1, 7), 3);
  const Codes b(type_b, trans_b ? Shape{n, k} : Shape{k, n}, random_integers(600 * 71, 2, 7), 1);
  const BlockScales sa(whole_a, blocks, 19, 3), sb(false, blocks, 71, 4);
  // Independent: the products of rounded values in double. Sums in f32 of 600 terms are off by at most 600 half units of the sum of magnitudes.
  Values want(19 * 71, 0.0), magnitude(19 * 71, 0.0);
  for (std::size_t q = 0; q < blocks; ++q) {
    Values x = steps_of(a.values(), 600, 19, trans_a, q * step, step), y = steps_of(b.values(), 600, 71, !trans_b, q * step, step);
    const Values rows = sa.of(q, 19), columns = sb.of(q, 71);
    for (std::size_t i = 0; i < x.size(); ++i) x[i] = static_cast<float>(x[i]) * scale(rows, trans_a ? i % 19 : i / step);
    for (std::size_t i = 0; i < y.size(); ++i) y[i] = static_cast<float>(y[i]) * scale(columns, trans_b ? i / step : i % 71);
    const Values part = reference::gemm({19, 71, step, trans_a, trans_b}, x, y);
    for (double& v : x) v = std::fabs(v);
    for (double& v : y) v = std::fabs(v);
    const Values size = reference::gemm({19, 71, step, trans_a, trans_b}, x, y);
    for (std::size_t i = 0; i < want.size(); ++i) want[i] += part[i], magnitude[i] += size[i];
  }
  detail::GemmProblem p;
  const Stored twin(DType::f32, {m, n});
  p.m = m, p.n = n, p.k = k, p.block = block;
  p.a = {a.view().data, type_a, a.view().stride[0], trans_a, 0};
  p.b = {b.view().data, type_b, b.view().stride[0], trans_b, 0};
  p.scale_a = {sa.stored.view().as<float>(), whole_a ? 0 : 1, 0, whole_a ? 0 : m};
  p.scale_b = {sb.stored.view().as<float>(), 1, 0, n};
  p.c = {twin.view().data, DType::f32, n, 0, false};
  detail::element_gemm(Exec{}, p);
  Kokkos::fence();
  const Values portable = twin.get();
  std::size_t beyond = 0;
  for (std::size_t i = 0; i < want.size(); ++i) beyond += !(std::fabs(portable[i] - want[i]) <= magnitude[i] * 600 * 0x1p-24);
  REQUIRE(beyond == 0);
  for (const Isa isa : isas_here()) {
    const IsaScope scope(isa);
    INFO("ISA " << name_of(isa));
    const Stored c(DType::f32, {m, n});
    ScaledOperand lhs{a, trans_a, sa.stored.view(), nullptr};
    lhs.block = block;
    scaled_gemm(Exec{}, lhs, {b, trans_b, sb.stored.view(), nullptr}, c, Write::overwrite, workspace);
    Kokkos::fence();
    REQUIRE(c.get() == portable);
  }
}

TEST_CASE("grouped products in blocks use the scales of their group, integers behind each sum and others in the values") {
  Arena workspace("scaled gemm test");
  const DType type = GENERATE(DType::i8, DType::e4m3fn);
  const bool trans_b = GENERATE(false, true);
  const std::vector<int> offsets = GENERATE(std::vector<int>{0, 9, 30, 47}, std::vector<int>{0, 0, 47, 47}, std::vector<int>{0, 20, 20, 31});
  const int64_t rows = 47, k = 48, n = 53, block = 16;
  const Codes a(type, {rows, k}, random_integers(47 * 48, 1, 7), 3), b(type, trans_b ? Shape{3, n, k} : Shape{3, k, n}, random_integers(3 * 48 * 53, 2, 7));
  // Powers of two: every order of sums and products is exact.
  const auto powers = [](std::size_t count, uint64_t seed) {
    Values x;
    for (const int v : random_ints(count, seed, 6)) x.push_back(std::ldexp(1.0, v - 3));
    return x;
  };
  const Stored sa(DType::f32, {3 * rows}, powers(3 * 47, 3)), sb(DType::f32, {3 * 3 * n}, powers(9 * 53, 4)), where({4}, offsets);
  const Values va = sa.get(), vb = sb.get(), codes_a = a.values(), codes_b = b.values();
  Values want(47 * 53, 0.0);
  for (std::size_t g = 0; g < 3; ++g)
    for (auto i = static_cast<std::size_t>(offsets[g]); i < static_cast<std::size_t>(offsets[g + 1]); ++i)
      for (std::size_t j = 0; j < 53; ++j)
        for (std::size_t p = 0; p < 48; ++p)
          want[i * 53 + j] += codes_a[i * 48 + p] * codes_b[g * 48 * 53 + (trans_b ? j * 48 + p : p * 53 + j)] * va[p / 16 * 47 + i] * vb[(p / 16 * 3 + g) * 53 + j];
  for (const Isa isa : isas_here()) {
    const IsaScope scope(isa);
    CAPTURE(name_of(isa), name_of(type), trans_b, offsets);
    const Packed ready(b, trans_b, block);
    const Stored c(DType::f32, {rows, n});
    ScaledOperand lhs{a, false, sa, nullptr};
    lhs.block = block;
    scaled_grouped_gemm(Exec{}, lhs, {b, trans_b, sb, &ready.operand}, where, c, Write::overwrite, workspace);
    Kokkos::fence();
    REQUIRE(c.get() == want);
  }
}

TEST_CASE("scaled products refuse what they cannot do, in a sentence") {
  Arena workspace("scaled gemm test");
  const Codes a(DType::i8, {3, 4}, Values(12, 1.0)), b(DType::i8, {4, 5}, Values(20, 1.0)), fp8(DType::e4m3fn, {4, 5}, Values(20, 1.0));
  const Stored c(DType::f32, {3, 5}), whole(DType::i32, {3, 4}), two(DType::f32, {2}, Values{1.0, 1.0});
  const auto run = [&](const ScaledOperand& l, const ScaledOperand& r) { scaled_gemm(Exec{}, l, r, c, Write::overwrite, workspace); };
  const ScaledOperand lhs{a, false, {}, nullptr}, rhs{b, false, {}, nullptr};
  CHECK_THROWS_WITH(run({a, true, {}, nullptr}, rhs), ContainsSubstring("lhs [3, 4] transposed and rhs [4, 5] do not make c [3, 5]"));
  CHECK_THROWS_WITH(run({whole, false, {}, nullptr}, rhs), ContainsSubstring("codes of lhs must be int8"));
  CHECK_THROWS_WITH(run({a, false, two, nullptr}, rhs), ContainsSubstring("lhs has 2 scales; 1, 3 were expected"));
  CHECK_THROWS_WITH(run({a, false, whole, nullptr}, rhs), ContainsSubstring("scales of lhs must be dense float32"));
  if constexpr (!exec_is_host) return;
  ScaledOperand blocks = lhs;
  blocks.block = 3;
  CHECK_THROWS_WITH(run(blocks, rhs), ContainsSubstring("blocks of 3 do not divide the contracted axis, which is 4 long"));
  blocks.block = 2;
  blocks.scale = c.view().reshaped({15});
  CHECK_THROWS_WITH(run(blocks, rhs), ContainsSubstring("lhs has 15 scales; 1, 6 were expected"));
  blocks.scale = {};
  CHECK_THROWS_WITH(packed_bytes(DType::i8, {4, 5}, false, 3), ContainsSubstring("4 contracted steps cannot be packed in blocks of 3"));
  const Packed ready(b, false);
  CHECK_THROWS_WITH(run(blocks, {b, false, {}, &ready.operand}), ContainsSubstring("packed in blocks of 0 steps, but the product has blocks of 2"));
  const Stored dw(DType::f32, {1, 4, 5}), rows({2}, std::vector<int>{0, 4});
  const Codes square(DType::i8, {4, 4}, Values(16, 1.0));
  blocks.codes = square;
  CHECK_THROWS_WITH(scaled_grouped_gemm_wgrad(Exec{}, blocks, rhs, rows, dw, Write::overwrite, workspace), ContainsSubstring("blocks of 2 are not taken"));
  CHECK_THROWS_WITH(run({a, false, {}, &ready.operand}, rhs), ContainsSubstring("left-hand operand is packed during the call"));
  CHECK_THROWS_WITH(run(lhs, {fp8, false, {}, &ready.operand}), ContainsSubstring("only int8 by int8 reads packed codes"));
  PackedOperand other = ready.operand;
  other.columns = 6;
  CHECK_THROWS_WITH(run(lhs, {b, false, {}, &other}), ContainsSubstring("holds 1 x [4, 6]; 1 x [4, 5] was expected"));
  if (isas_here().size() > 1) {
    other = ready.operand;
    other.isa = chosen_isa() == Isa::portable ? Isa::avx2 : Isa::portable;
    CHECK_THROWS_WITH(run(lhs, {b, false, {}, &other}), ContainsSubstring("is in the order of"));
  }
  PackedOperand small{ready.operand.data, 8};
  CHECK_THROWS_WITH(pack(Exec{}, b, false, small), ContainsSubstring("on a 64-byte boundary are needed"));
  PackedOperand none;
  pack(Exec{}, fp8, false, none);
  CHECK(none.bytes == 0);
}
