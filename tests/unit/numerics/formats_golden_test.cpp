// Every code, every midpoint between two codes, one unit in the last place around each midpoint, overflow, infinities,
// zeros and subnormals, as the reference library converts them (tests/reference/data/qwix_convert.safetensors).
#include "data/safetensors.hpp"
#include "numerics/bf16.hpp"
#include "numerics/formats.hpp"

#include <catch2/catch_template_test_macros.hpp>
#include <catch2/catch_test_macros.hpp>

#include <nlohmann/json.hpp>

#include <cmath>
#include <set>

namespace {

using namespace kvant;

template <class F>
const char* golden_name();
#define KVANT_GOLDEN(type, text)    \
  template <>                       \
  const char* golden_name<type>() { \
    return text;                    \
  }
KVANT_GOLDEN(E4M3fn, "float8_e4m3fn")
KVANT_GOLDEN(E5M2, "float8_e5m2")
KVANT_GOLDEN(E4M3, "float8_e4m3")
KVANT_GOLDEN(E3M4, "float8_e3m4")
KVANT_GOLDEN(E2M1, "float4_e2m1fn")
KVANT_GOLDEN(E4M3fnuz, "float8_e4m3fnuz")
KVANT_GOLDEN(E5M2fnuz, "float8_e5m2fnuz")
KVANT_GOLDEN(E4M3b11fnuz, "float8_e4m3b11fnuz")
KVANT_GOLDEN(Int<2>, "int2")
KVANT_GOLDEN(Int<3>, "int3")
KVANT_GOLDEN(Int<4>, "int4")
KVANT_GOLDEN(Int<5>, "int5")
KVANT_GOLDEN(Int<6>, "int6")
KVANT_GOLDEN(Int<7>, "int7")
KVANT_GOLDEN(Int<8>, "int8")
KVANT_GOLDEN(Int<16>, "int16")
KVANT_GOLDEN(UInt<4>, "uint4")
KVANT_GOLDEN(UInt<8>, "uint8")
KVANT_GOLDEN(Nf4, "nf4")

const data::SafetensorsFile& golden() {
  static const data::SafetensorsFile file(KVANT_SOURCE_DIR "/tests/reference/data/qwix_convert.safetensors");
  return file;
}

template <class F>
int32_t code_of(float v) {
  if constexpr (std::is_same_v<F, Nf4>)  // the reference does not clamp
    return F::encode_as_reference(v);
  else
    return static_cast<int32_t>(F::encode(v));
}

/// The reference clips to the bound before it casts; bf16 inputs are exact as floats.
template <class F>
int wrong_codes(const char* values, const char* codes, const std::string& name = golden_name<F>()) {
  const auto x = golden().read_floats(name + values);
  const auto code = golden().read_integers(name + codes);
  REQUIRE(x.size() == code.size());
  REQUIRE(x.size() > 200);
  int wrong = 0;
  for (std::size_t i = 0; i < x.size(); ++i) {
    if (std::isnan(x[i])) continue;
    if (code_of<F>(x[i]) != code[i]) {
      UNSCOPED_INFO(name << " of " << x[i] << " is " << code_of<F>(x[i]) << ", recorded " << code[i]);
      ++wrong;
    }
  }
  return wrong;
}

}  // namespace

TEMPLATE_TEST_CASE("codes are the reference's for every code and midpoint", "[numerics]", E4M3fn, E5M2, E4M3, E3M4,
                   E2M1, E4M3fnuz, E5M2fnuz, E4M3b11fnuz, Int<2>, Int<3>, Int<4>, Int<5>, Int<6>, Int<7>, Int<8>,
                   Int<16>, UInt<4>, UInt<8>, Nf4) {
  STATIC_REQUIRE(NumericFormat<TestType>);
  CHECK(wrong_codes<TestType>("/x", "/code") == 0);
  CHECK(wrong_codes<TestType>("/xb", "/codeb") == 0);
}

TEST_CASE("every recorded qtype is compared", "[numerics]") {
  CHECK(wrong_codes<Int<2>>("/x", "/code", "str_int2") == 0);  // the reference's other spelling of int2
  CHECK(wrong_codes<Int<2>>("/xb", "/codeb", "str_int2") == 0);
  std::set<std::string> recorded;
  for (const data::StoredTensor& t : golden().tensors()) recorded.insert(t.name.substr(0, t.name.find('/')));
  CHECK(recorded.size() == 20);  // the nineteen above and str_int2
}

TEMPLATE_TEST_CASE("bounds are the reference's", "[numerics]", E4M3fn, E5M2, E4M3, E3M4, E2M1, E4M3fnuz, E5M2fnuz,
                   E4M3b11fnuz, Int<2>, Int<3>, Int<4>, Int<5>, Int<6>, Int<7>, Int<8>, Int<16>, UInt<4>, UInt<8>,
                   Nf4) {
  const auto entry = nlohmann::json::parse(golden().metadata(std::string("case/") + golden_name<TestType>()));
  CHECK(TestType::reference_bound == entry.at("symmetric_bound").template get<float>());
}

TEMPLATE_TEST_CASE("decoded values are the reference's for every code", "[numerics]", E4M3fn, E5M2, E4M3, E3M4, E2M1,
                   E4M3fnuz, E5M2fnuz, E4M3b11fnuz, Nf4) {
  const auto decode = golden().read_floats(std::string(golden_name<TestType>()) + "/decode");
  REQUIRE(decode.size() == std::size_t{1} << TestType::code_bits);
  for (std::size_t code = 0; code < decode.size(); ++code) {
    const float value = TestType::decode(static_cast<typename TestType::storage>(code));
    if (std::isnan(decode[code])) {
      CHECK(std::isnan(value));
    } else {
      CHECK(bits_of(value) == bits_of(decode[code]));
      // a finite code is what its own value encodes to
      if (std::isfinite(value)) CHECK(static_cast<std::size_t>(TestType::encode(value)) == code);
    }
  }
}

TEMPLATE_TEST_CASE("NaN is the format's NaN of that sign, and integers have 0 for it", "[numerics]", E4M3fn, E5M2, E4M3,
                   E3M4, E4M3fnuz, E5M2fnuz, E4M3b11fnuz) {
  const float quiet = float_of(0x7fc00000u);
  CHECK(std::isnan(TestType::decode(TestType::encode(quiet))));
  CHECK(std::isnan(TestType::decode(TestType::encode(-quiet))));
  CHECK(Int<8>::encode(quiet) == 0);
  CHECK(golden().read_integers("int8/nan_code") == std::vector<int32_t>{0, 0});
}
