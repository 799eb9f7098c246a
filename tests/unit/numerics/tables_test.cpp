// Every format against its table of doubles: all codes, all midpoints and one unit in the last place on both sides of
// each, the ends.
#include "numerics/formats.hpp"
#include "reference/formats.hpp"

#include <catch2/catch_template_test_macros.hpp>
#include <catch2/catch_test_macros.hpp>

#include <cmath>

namespace {

using namespace kvant;
using namespace kvant::reference;

template <class F>
struct TableOf;
template <int bits>
struct TableOf<Int<bits>> {
  static FormatTable make() { return integer_table(-(1 << (bits - 1)), (1 << (bits - 1)) - 1); }
};
template <int bits>
struct TableOf<UInt<bits>> {
  static FormatTable make() { return integer_table(0, (1 << bits) - 1); }
};
#define KVANT_TABLE(format, table)              \
  template <>                                   \
  struct TableOf<format> {                      \
    static FormatTable make() { return table; } \
  };
KVANT_TABLE(E4M3fn, float_table(4, 3, 7, Top::one_nan))
KVANT_TABLE(E5M2, float_table(5, 2, 15, Top::infinity_and_nan))
KVANT_TABLE(E4M3, float_table(4, 3, 7, Top::infinity_and_nan))
KVANT_TABLE(E3M4, float_table(3, 4, 3, Top::infinity_and_nan))
KVANT_TABLE(E2M1, float_table(2, 1, 1, Top::nothing))
KVANT_TABLE(E4M3fnuz, float_table(4, 3, 8, Top::negative_zero_is_nan))
KVANT_TABLE(E5M2fnuz, float_table(5, 2, 16, Top::negative_zero_is_nan))
KVANT_TABLE(E4M3b11fnuz, float_table(4, 3, 11, Top::negative_zero_is_nan))
KVANT_TABLE(F16, float_table(5, 10, 15, Top::infinity_and_nan))
KVANT_TABLE(E8M0, power_table())

template <class F>
int64_t code_of(float v) {
  return static_cast<int64_t>(F::encode(v));
}

/// Codes of negative values that round to zero: -0 where the format has it.
template <class F>
bool same_code(float v, int64_t got, int64_t expected) {
  if (got == expected) return true;
  return v <= 0 && std::signbit(v) && expected == 0 && F::decode(static_cast<typename F::storage>(got)) == 0.0f;
}

}  // namespace

TEMPLATE_TEST_CASE("codes and values are those of the table of doubles", "[numerics]", Int<2>, Int<3>, Int<4>, Int<5>,
                   Int<6>, Int<7>, Int<8>, Int<16>, UInt<2>, UInt<3>, UInt<4>, UInt<5>, UInt<6>, UInt<7>, UInt<8>,
                   UInt<16>, E4M3fn, E5M2, E4M3, E3M4, E2M1, E4M3fnuz, E5M2fnuz, E4M3b11fnuz, F16, E8M0) {
  using F = TestType;
  STATIC_REQUIRE(NumericFormat<F>);
  const FormatTable table = TableOf<F>::make();
  CHECK(table.back().value == static_cast<double>(F::max_finite));
  CHECK(table.front().value == static_cast<double>(F::lowest));
  int wrong = 0, compared = 0;
  const auto compare = [&](float v) {
    ++compared;
    const int64_t got = code_of<F>(v), expected = nearest_code(table, static_cast<double>(v));
    if (!same_code<F>(v, got, expected) && ++wrong < 5)
      UNSCOPED_INFO(v << " became code " << got << ", expected " << expected);
  };
  for (std::size_t i = 0; i < table.size(); ++i) {
    const auto value = static_cast<float>(table[i].value);
    CHECK(F::decode(static_cast<typename F::storage>(table[i].code)) == value);
    compare(value);
    if (i + 1 == table.size()) break;
    const auto middle = static_cast<float>((table[i].value + table[i + 1].value) / 2);
    compare(middle);
    if (middle == 0) continue;
    compare(std::nextafter(middle, HUGE_VALF));
    compare(std::nextafter(middle, -HUGE_VALF));
  }
  const bool signless = table.front().value > 0;  // E8M0 has no zero and no sign
  for (const float v : {1.001f, 1.5f, 2.0f, 1e30f, HUGE_VALF}) {
    compare(v * F::max_finite);
    if (!signless) compare(-v * F::max_finite);
  }
  compare(0.0f);
  CHECK(wrong == 0);
  CHECK(compared > 10);
}

TEST_CASE("nf4 is the nearest level, saturates, and has no code for NaN but 0", "[numerics]") {
  int wrong = 0;
  for (int i = -1200; i <= 1200; ++i) {
    const float v = static_cast<float>(i) * 1e-3f;
    int best = 0;
    for (int level = 1; level < 16; ++level)
      if (std::fabs(double{v} - double{Nf4::level(level)}) < std::fabs(double{v} - double{Nf4::level(best)}))
        best = level;
    wrong += Nf4::encode(v) != best;
  }
  CHECK(wrong == 0);
  CHECK(Nf4::encode(3e38f) == 15);
  CHECK(Nf4::encode(HUGE_VALF) == 15);
  CHECK(Nf4::encode(-HUGE_VALF) == 0);
  CHECK(Nf4::decode(Nf4::encode(0.0f)) == 0.0f);
}

TEST_CASE("e8m0 has neither sign nor zero", "[numerics]") {
  CHECK(E8M0::encode(-1.0f) == E8M0::nan_code);
  CHECK(E8M0::encode(std::nanf("")) == E8M0::nan_code);
  CHECK(std::isnan(E8M0::decode(E8M0::nan_code)));
  CHECK(E8M0::encode(-0.0f) == 0);
  CHECK(power_of_two_below(3.9f) == 2.0f);
  CHECK(power_of_two_above(3.9f) == 4.0f);
  CHECK(power_of_two_above(4.0f) == 4.0f);
  CHECK(power_of_two_above(0x1.fp127f) == 0x1p127f);
}

TEST_CASE("the same bits in OCP and in FNUZ differ by a factor of two, with four exceptions", "[numerics]") {  // D06
  int halved = 0;
  std::vector<int> others;
  for (int code = 0; code < 256; ++code) {
    const float ocp = E4M3fn::decode(static_cast<uint8_t>(code)), fnuz = E4M3fnuz::decode(static_cast<uint8_t>(code));
    if (!std::isnan(ocp) && !std::isnan(fnuz) && ocp != 0 && ocp == 2 * fnuz)
      ++halved;
    else
      others.push_back(code);
  }
  CHECK(halved == 252);
  CHECK(others == std::vector<int>{0x00, 0x7f, 0x80, 0xff});
  CHECK(E4M3fnuz::max_finite == 240.0f);
  STATIC_REQUIRE_FALSE(std::is_same_v<E4M3fn, E4M3fnuz>);
  // What one rank sends and the other one needs: by value. Codes that the other format lacks saturate.
  CHECK(E4M3fnuz::decode(E4M3fnuz::encode(E4M3fn::decode(0x7e))) == 240.0f);
  CHECK(E4M3fnuz::decode(E4M3fnuz::encode(E4M3fn::decode(0x38))) == 1.0f);
}
