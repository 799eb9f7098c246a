// Recorded scales and codes of Qwix (IEEE quotients, float32 inputs): absmax with and without a factor, constant
// ranges, edge rows.
#include "data/safetensors.hpp"
#include "kernels/quantize_kernel.hpp"
#include "numerics/float.hpp"
#include "numerics/int.hpp"
#include "support/device_buffer.hpp"

#include <catch2/catch_template_test_macros.hpp>
#include <catch2/catch_test_macros.hpp>
#include <nlohmann/json.hpp>

#include <cmath>

namespace {

using namespace kvant;
using kvant::test::DeviceBuffer;
using nlohmann::json;

template <class F>
struct Golden;
template <>
struct Golden<Int<8>> {
  static constexpr const char* name = "int8";
  static constexpr float bound = 127.5f;
};
template <>
struct Golden<E4M3fn> {
  static constexpr const char* name = "float8_e4m3fn";
  static constexpr float bound = 448.0f;
};
template <>
struct Golden<E5M2> {
  static constexpr const char* name = "float8_e5m2";
  static constexpr float bound = 57344.0f;
};

ScaleLaw reference_law(float bound) {
  ScaleLaw law;
  law.bound = bound;
  law.true_quotient = law.reference_guard = true;
  return law;
}

/// Rows whose largest magnitude is not finite: the reference keeps going with them, Kvant poisons their scale.
bool finite_row(const std::vector<float>& x, int64_t row, int64_t cols) {
  for (int64_t c = 0; c < cols; ++c)
    if (!std::isfinite(x[static_cast<std::size_t>(row * cols + c)])) return false;
  return true;
}

}  // namespace

TEMPLATE_TEST_CASE("scales and codes are Qwix's, bit for bit", "[kernels][quantize][golden]", Int<8>, E4M3fn, E5M2) {
  using G = Golden<TestType>;
  const data::SafetensorsFile file(KVANT_SOURCE_DIR "/tests/reference/data/qwix_quantize.safetensors");
  int compared = 0;
  for (const char* suffix :
       {"absmax/T/a_f32", "absmax/c0/a_f32", "absmax/c1/a_f32", "absmax_0.7/c0/a_f32", "absmax_1.5/c0/a_f32",
        "fixed_3/c0/a_f32", "fixed_-8_8/c0/a_f32", "fixed_-224_224/c0/a_f32", "absmax/c0/edge_f32"}) {
    const std::string name = std::string(G::name) + "/" + suffix;
    INFO(name);
    const json entry = json::parse(file.metadata("case/" + name));
    const auto& stored = file.tensor(entry.at("x").get<std::string>());
    const auto x = file.read_floats(stored.name);
    const auto scales = file.read_floats(name + "/scale");
    const auto codes = file.read_integers(name + "/q");
    const int64_t cols = stored.shape.back(), rows = stored.numel() / cols;
    const std::string method = entry.at("calibration").get<std::string>();
    const auto axes = entry.at("channelwise_axes").get<std::vector<int>>();

    const DeviceBuffer input(DType::f32, {rows, cols}, x);
    const DeviceBuffer q(DType::u8, {rows, cols}), scale(DType::f32, {static_cast<int64_t>(scales.size())}),
        magnitudes(DType::i32, {static_cast<int64_t>(scales.size())});
    QuantizeJob job;
    job.x = input;
    job.codes = q;
    job.scale = scale;
    job.magnitudes = magnitudes;
    job.law = reference_law(G::bound);
    const bool fixed = method.starts_with("fixed");
    job.scale_along = fixed || axes.empty()                           ? Along::tensor
                      : axes.front() == 0 && stored.shape.size() == 2 ? Along::row
                                                                      : Along::column;
    if (fixed)
      job.fixed_scale = std::stof(method.substr(method.rfind(',') + 1)) / G::bound;
    else if (method.find(',') != std::string::npos)
      job.law.factor = std::stof(method.substr(7));
    REQUIRE(stored.shape.size() == 2);
    quantize<TestType>(Exec{}, job);

    const auto got_scales = scale.floats();
    const auto got = q.integers();
    for (int64_t r = 0; r < rows; ++r) {
      if (!finite_row(x, r, cols)) continue;
      if (job.scale_along == Along::row)
        CHECK(got_scales[static_cast<std::size_t>(r)] == scales[static_cast<std::size_t>(r)]);
      int wrong = 0;
      for (int64_t c = 0; c < cols; ++c) {
        const auto i = static_cast<std::size_t>(r * cols + c);
        wrong += static_cast<uint8_t>(got[i]) != static_cast<uint8_t>(codes[i]);
      }
      CHECK(wrong == 0);
    }
    if (job.scale_along != Along::row) CHECK(got_scales == scales);
    ++compared;
  }
  CHECK(compared == 9);
}
