// Every recorded quantization of Qwix: all formats, calibrations, granularities and block rules, float32 and bfloat16,
// edge rows included. Statistics, scales, zero points, codes and decoded values in every bit.
#include "data/safetensors.hpp"
#include "kernels/quantize_tiles_kernel.hpp"
#include "support/device_buffer.hpp"
#include "support/golden_formats.hpp"

#include <catch2/catch_test_macros.hpp>
#include <nlohmann/json.hpp>

#include <cmath>

namespace {

using namespace kvant;
using kvant::test::DeviceBuffer;
using nlohmann::json;

constexpr const char* data_folder = KVANT_SOURCE_DIR "/tests/reference/data/";

/// "absmax,0.7" → name and numbers.
struct Method {
  std::string name;
  std::vector<float> numbers;
  explicit Method(const std::string& text) : name(text.substr(0, text.find(','))) {
    for (auto comma = text.find(','); comma != std::string::npos; comma = text.find(',', comma + 1))
      numbers.push_back(std::stof(text.substr(comma + 1)));
  }
};

/// How an operand was quantized, and what came of it.
struct Recorded {
  Shape shape;
  DType dtype;
  std::vector<float> x;
  std::string qtype;
  Method method;
  TileShape tile;
  bool asymmetric;
};

Recorded recorded(const data::SafetensorsFile& file, const std::string& input, const json& how, bool asymmetric) {
  const auto& stored = file.tensor(input);
  Recorded r{{},
             stored.dtype == "F32" ? DType::f32 : DType::bf16,
             file.read_floats(input),
             how.at("qtype"),
             Method(how.at("calibration")),
             {},
             asymmetric};
  for (const int64_t d : stored.shape) r.shape.dim[static_cast<std::size_t>(r.shape.rank++)] = d;
  std::vector<AxisTile> tiles;
  for (const json& t : how.at("tiled_axes")) {
    AxisTile tile;
    tile.axis = t[0];
    if (t[1] == "int")
      tile.size = t[2];
    else
      tile.fraction = t[2];
    tiles.push_back(tile);
  }
  r.tile = tile_shape(r.shape, how.at("channelwise_axes").get<std::vector<int>>(), tiles);
  return r;
}

struct Result {
  std::vector<float> scale, low, high;
  std::vector<int> zero, codes;
  DeviceBuffer code_buffer, scale_buffer, zero_buffer;
};

template <class F>
Result run(const Recorded& r, bool round_up, const std::vector<float>& given) {
  const bool fixed = r.method.name == "fixed";
  const int64_t scales = fixed ? 1 : tile_count(r.shape, r.tile);
  const DeviceBuffer x(r.dtype, r.shape, r.x);
  Result result;
  result.code_buffer = DeviceBuffer(test::code_type<F>(), r.shape);
  result.code_buffer.poison();
  result.scale_buffer = DeviceBuffer(DType::f32, {scales});
  result.zero_buffer = DeviceBuffer(DType::i32, {scales});
  DeviceBuffer low(DType::f32, {scales}), high(DType::f32, {scales});
  TileJob job;
  job.x = x;
  job.tile = r.tile;
  job.codes = result.code_buffer;
  job.scale = result.scale_buffer;
  job.low = low;
  job.high = high;
  if (r.asymmetric) job.zero_point = result.zero_buffer;
  job.law = test::reference_law(r.qtype, F::reference_bound, round_up);
  if (fixed) {
    job.statistic = Statistic::constant;
    job.high_limit = r.method.numbers.back();
    job.low_limit = r.method.numbers.size() == 1 ? -job.high_limit : r.method.numbers[0];
  } else if (r.method.name == "rms") {
    job.statistic = Statistic::given;
    high.put(given);
  } else {
    job.statistic = r.method.name == "minmax" ? Statistic::minmax : Statistic::absmax;
    if (!r.method.numbers.empty()) job.law.factor = r.method.numbers[0];
  }
  const DeviceBuffer workspace(DType::i32, {tile_workspace(job)});
  job.workspace = workspace;
  quantize_tiles<F>(Exec{}, job);
  Kokkos::fence();
  result.scale = result.scale_buffer.floats();
  result.low = low.floats();
  result.high = high.floats();
  if (r.asymmetric) result.zero = result.zero_buffer.integers();
  result.codes = result.code_buffer.integers();
  return result;
}

bool same(float a, float b) {
  return (std::isnan(a) && std::isnan(b)) || bits_of(a) == bits_of(b) || (a == 0 && b == 0);
}
/// The reference's processor flushes subnormal numbers to zero.
float flushed(float v) { return std::fabs(v) < 0x1p-126f ? 0.0f : v; }

int differences(const std::vector<float>& got, const std::vector<float>& expected) {
  if (got.size() != expected.size()) return 1000000;
  int wrong = 0;
  for (std::size_t i = 0; i < got.size(); ++i) wrong += !same(flushed(got[i]), flushed(expected[i]));
  return wrong;
}

template <class F>
int wrong_codes(const std::vector<int>& got, const std::vector<int32_t>& expected) {
  int wrong = 0;
  for (std::size_t i = 0; i < got.size(); ++i) {
    using Code = typename F::storage;
    if (static_cast<Code>(got[i]) == static_cast<Code>(expected[i])) continue;
    const bool both_nan =
        std::isnan(F::decode(static_cast<Code>(got[i]))) && std::isnan(F::decode(static_cast<Code>(expected[i])));
    wrong += !both_nan;  // the sign of a NaN is the processor's
  }
  return wrong;
}

template <class F>
std::vector<float> decoded(const Recorded& r, const Result& result, const std::vector<float>& scale, DType type) {
  const DeviceBuffer scales(DType::f32, {static_cast<int64_t>(scale.size())}, scale);
  const DeviceBuffer values(type, r.shape);
  TileDecode job;
  job.codes = result.code_buffer;
  job.tile = r.tile;
  job.scale = scales;
  if (r.asymmetric) job.zero_point = result.zero_buffer;
  job.values = values;
  job.value_arithmetic = true;
  dequantize_tiles<F>(Exec{}, job);
  Kokkos::fence();
  return values.floats();
}

/// e2m1 has no NaN: what the reference makes of one is its backend's choice (golden/README), as are the values of it.
bool e2m1_of_nan(const Recorded& r, std::size_t i, const std::vector<float>& scale) {
  const bool e2m1 = r.qtype == "float4_e2m1fn" || r.qtype == "nvfp4" || r.qtype == "mxfp4";
  if (!e2m1) return false;
  if (std::isnan(r.x[i])) return true;
  for (const float s : scale)
    if (std::isnan(s) || std::isinf(s) || s == 0) return true;
  return false;
}

void compare(const data::SafetensorsFile& file, const std::string& name, bool round_up) {
  INFO(name);
  const json entry = json::parse(file.metadata("case/" + name));
  const bool asymmetric = file.has(name + "/zero_point");
  const Recorded r = recorded(file, entry.at("x"), entry, asymmetric);
  const auto expected_scale = file.read_floats(name + "/scale");
  const std::vector<float> given =
      r.method.name == "rms" ? file.read_floats(name + "/stat_absmax") : std::vector<float>{};
  test::with_format(r.qtype, [&]<class F>() {
    const Result result = run<F>(r, round_up, given);
    std::vector<float> scale = result.scale;
    const json& recast = entry.at("scale_dtype");
    DType type = r.dtype;
    if (!recast.is_null()) {
      type = recast == "bfloat16" ? DType::bf16 : DType::f32;
      if (type == DType::bf16)
        for (float& s : scale) s = to_float(to_bf16(s));
    }
    CHECK(differences(scale, expected_scale) == 0);
    if (asymmetric) {
      CHECK(differences(result.low, file.read_floats(name + "/stat_min")) == 0);
      CHECK(differences(result.high, file.read_floats(name + "/stat_max")) == 0);
      const auto zero = file.read_integers(name + "/zero_point");
      CHECK(std::vector<int>(zero.begin(), zero.end()) == result.zero);
    } else {
      CHECK(differences(result.high, file.read_floats(name + "/stat_absmax")) == 0);
    }
    auto codes = result.codes;
    auto expected = file.read_integers(name + "/q");
    auto values = decoded<F>(r, result, scale, type), expected_values = file.read_floats(name + "/dq");
    REQUIRE(codes.size() == expected.size());
    for (std::size_t i = 0; i < codes.size(); ++i)
      if (expected[i] == 8 && e2m1_of_nan(r, i, scale) && (codes[i] & 7) == 0) {
        codes[i] = expected[i];
        values[i] = expected_values[i] = 0;
      }
    CHECK(wrong_codes<F>(codes, expected) == 0);
    CHECK(differences(values, expected_values) == 0);
  });
}

}  // namespace

TEST_CASE("quantizations are Qwix's, bit for bit", "[kernels][quantize][golden]") {
  const data::SafetensorsFile file(std::string(data_folder) + "qwix_quantize.safetensors");
  const auto cases = json::parse(file.metadata("cases")).get<std::vector<std::string>>();
  CHECK(cases.size() == 301);
  for (const std::string& name : cases) compare(file, name, false);
}

TEST_CASE("the released 0.1.8 rounds block scales up", "[kernels][quantize][golden]") {
  const data::SafetensorsFile file(std::string(data_folder) + "qwix_mx_wheel_0_1_8.safetensors");
  const auto cases = json::parse(file.metadata("cases")).get<std::vector<std::string>>();
  CHECK(cases.size() == 4);
  for (const std::string& name : cases) compare(file, name, true);
}

TEST_CASE("stored operands of recorded products are what their inputs quantize to", "[kernels][quantize][golden]") {
  const data::SafetensorsFile file(std::string(data_folder) + "qwix_qarray_matmul.safetensors");
  const auto cases = json::parse(file.metadata("cases")).get<std::vector<std::string>>();
  CHECK(cases.size() == 45);
  int operands = 0;
  for (const std::string& name : cases) {
    const json entry = json::parse(file.metadata("case/" + name));
    for (const std::string side : {"lhs", "rhs"}) {
      const json& how = entry.at(side + "_how");
      if (how.is_null()) continue;
      INFO(name << " " << side);
      const std::string stem = name + "/" + side;
      const bool asymmetric = file.has(stem + "_zero_point");
      const Recorded r = recorded(file, entry.at(side), how, asymmetric);
      test::with_format(r.qtype, [&]<class F>() {
        const Result result = run<F>(r, false, {});
        CHECK(differences(result.scale, file.read_floats(stem + "_scale")) == 0);
        CHECK(wrong_codes<F>(result.codes, file.read_integers(stem + "_q")) == 0);
        if (asymmetric) {
          const auto zero = file.read_integers(stem + "_zero_point");
          CHECK(std::vector<int>(zero.begin(), zero.end()) == result.zero);
        }
      });
      ++operands;
    }
  }
  CHECK(operands > 70);
}
