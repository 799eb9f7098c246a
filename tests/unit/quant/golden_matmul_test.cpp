// Recorded results of Qwix: codes, scales, outputs and both gradients of dense and grouped products in float32 (IEEE
// quotients; integer payloads agree in every bit, fp8 sums to the order of addition).
#include "data/safetensors.hpp"
#include "support/quant_problem.hpp"

#include <catch2/catch_test_macros.hpp>
#include <nlohmann/json.hpp>

#include <cmath>

namespace {

using namespace kvant;
using kvant::test::QuantProblem;
using nlohmann::json;

quant::Rule rule_of(const json& config) {
  const auto text = [&](const char* key, const char* otherwise) {
    return config.contains(key) ? config.at(key).get<std::string>() : std::string(otherwise);
  };
  quant::Rule rule = kvant::test::types(text("rhs_qtype", ""), text("lhs_qtype", ""), text("dlhs_grad_qtype", ""));
  rule.drhs_qtype = text("drhs_grad_qtype", "");
  rule.act_calibration = text("lhs_calibration_method", "absmax");
  rule.weight_calibration = text("rhs_calibration_method", "absmax");
  rule.bwd_calibration = text("dlhs_grad_calibration_method", "absmax");
  rule.drhs_calibration = text("drhs_grad_calibration_method", "absmax");
  rule.disable_channelwise_axes = config.value("lhs_disable_channelwise_axes", false);
  return rule;
}

void compare(const char* what, const std::vector<float>& got, const std::vector<float>& recorded, bool exact) {
  INFO(what);
  REQUIRE(got.size() == recorded.size());
  double largest = 0, worst = 0;
  for (const float v : recorded) largest = std::fmax(largest, std::fabs(v));
  for (std::size_t i = 0; i < got.size(); ++i)
    worst = std::fmax(worst, std::fabs(static_cast<double>(got[i]) - recorded[i]));
  CHECK(worst <= (exact ? 0.0 : 1e-6 * largest));
}

void compare_codes(const Payload& payload, const data::SafetensorsFile& file, const std::string& name) {
  const auto recorded = file.read_integers(name + "/fwd_lhs_q");
  const auto* codes = static_cast<const uint8_t*>(payload.codes.data);
  int wrong = 0;
  for (std::size_t i = 0; i < recorded.size(); ++i) wrong += static_cast<uint8_t>(recorded[i]) != codes[i];
  CHECK(wrong == 0);
  const auto scale = file.read_floats(name + "/fwd_lhs_scale");
  for (std::size_t i = 0; i < scale.size(); ++i) CHECK(payload.scale.as<float>()[i] == scale[i]);
}

void run_case(const data::SafetensorsFile& file, const std::string& name, const json& entry, const quant::Rule& rule,
              const std::vector<int>& offsets) {
  INFO(name);
  const auto& lhs = file.tensor(entry.at("lhs").get<std::string>());
  const auto& rhs = file.tensor(entry.at("rhs").get<std::string>());
  const int64_t k = lhs.shape.back(), n = rhs.shape.back(), rows = lhs.numel() / k;
  QuantProblem p(rows, k, n, rule, offsets, DType::f32, nullptr, "ieee");
  p.set(file.read_floats(lhs.name), file.read_floats(rhs.name), file.read_floats(entry.at("g").get<std::string>()));
  p.forward();
  p.backward();
  if constexpr (exec_is_host) compare_codes(*p.operand.find(1), file, name);
  const bool exact_forward = rule.act_qtype == "int8" && rule.weight_qtype == "int8",
             exact_backward = exact_forward && rule.bwd_qtype == "int8";
  compare("out", p.y.floats(), file.read_floats(name + "/out"), exact_forward);
  compare("dlhs", p.dx.floats(), file.read_floats(name + "/dlhs"), exact_backward);
  compare("drhs", p.dw(), file.read_floats(name + "/drhs"), exact_backward);
}

}  // namespace

TEST_CASE("dense products agree with Qwix", "[quant][golden]") {
  const data::SafetensorsFile file(KVANT_SOURCE_DIR "/tests/reference/data/qwix_dot_general_qt.safetensors");
  for (const char* name :
       {"base/int8", "base/int8_e5m2", "base/fp8_full", "base/fp8", "base/fp8_e5m2", "dead/int8", "dead/fp8_full",
        "per_tensor/int8", "per_tensor/fp8_full", "cal/fixed/fp8_full", "cal/fixed_all/fp8_full",
        "cal/fixed_one_arg/int8", "cal/absmax_half/int8", "cal/absmax_half/fp8_full", "cal/absmax_above_one/int8",
        "cal/absmax_above_one/fp8_full", "cal/bwd_absmax_clip/fp8_full", "hand/int8", "hand/fp8_full"}) {
    const json entry = json::parse(file.metadata(std::string("case/") + name));
    run_case(file, name, entry, rule_of(entry.at("config")), {});
  }
}

namespace {

config::TileSize tile_size(const json& value) {
  config::TileSize tile;
  if (value.is_number_integer()) tile.count = value.get<int64_t>();
  else tile.share = value.get<double>();
  return tile;
}

quant::Rule rule_of_user(const json& r) {
  const auto text = [&](const char* key, const char* otherwise) { return r.contains(key) ? r.at(key).get<std::string>() : std::string(otherwise); };
  quant::Rule rule = kvant::test::types(text("weight_qtype", ""), text("act_qtype", ""), text("bwd_qtype", ""));
  rule.act_calibration = text("act_calibration_method", "absmax");
  rule.weight_calibration = text("weight_calibration_method", "absmax");
  rule.bwd_calibration = text("bwd_calibration_method", "absmax");
  rule.disable_channelwise_axes = r.value("disable_channelwise_axes", false);
  if (r.contains("tile_size")) {
    const json& tile = r.at("tile_size");
    if (tile.is_object())
      for (const auto& [axis, size] : tile.items()) rule.act_tile.axes.emplace_back(std::stoi(axis), tile_size(size));
    else
      rule.act_tile.contracted = tile_size(tile);
    rule.weight_tile = rule.act_tile;
  }
  if (r.contains("bwd_weight_grad_tile_size")) rule.wgrad_tile = tile_size(r.at("bwd_weight_grad_tile_size"));
  const json more = r.value("additional_qt_config", json::object());
  rule.mask_gradients = !more.value("disable_gradient_clipping", false);
  rule.original_residuals = more.value("use_original_residuals", false);
  return rule;
}

/// sum |a||b| of each element of a product, in double: what the recorded file's tolerances are relative to.
std::vector<double> sums(int64_t m, int64_t k, int64_t n, const std::vector<float>& a, bool trans_a, const std::vector<float>& b, bool trans_b) {
  std::vector<double> c(static_cast<std::size_t>(m * n));
  for (int64_t i = 0; i < m; ++i)
    for (int64_t l = 0; l < k; ++l)
      for (int64_t j = 0; j < n; ++j)
        c[static_cast<std::size_t>(i * n + j)] += std::fabs(static_cast<double>(a[static_cast<std::size_t>(trans_a ? l * m + i : i * k + l)]) *
                                                           static_cast<double>(b[static_cast<std::size_t>(trans_b ? j * k + l : l * n + j)]));
  return c;
}

void compare_within(const char* what, const std::vector<float>& got, const std::vector<float>& recorded, const std::vector<double>& sum) {
  INFO(what);
  REQUIRE(got.size() == recorded.size());
  double worst = 0;
  for (std::size_t i = 0; i < got.size(); ++i)
    // The file's bound is 5e-7 of the payloads' sum; values are used here, which clipping and 2-bit codes move by up to half.
    worst = std::fmax(worst, std::fabs(static_cast<double>(got[i]) - static_cast<double>(recorded[i])) / (sum[i] + 1e-30));
  CHECK(worst <= 1e-6);
}

}  // namespace

TEST_CASE("weight-only, tiled, block, shifted and unquantized-gradient products agree with Qwix", "[quant][golden]") {
  const data::SafetensorsFile file(KVANT_SOURCE_DIR "/tests/reference/data/qwix_dot_general_qt.safetensors");
  int cases = 0;
  for (const std::string& name : json::parse(file.metadata("cases")).get<std::vector<std::string>>()) {
    const json entry = json::parse(file.metadata("case/" + name));
    const std::string layout = entry.at("layout");
    const bool matrices = layout == "btk_kn" || layout.starts_with("mk_kn") || layout == "hand";
    if (!matrices || entry.at("weight") != "rhs" || name.ends_with("bf16") || name.starts_with("sr/") || name.starts_with("sparsity/") ||
        name.starts_with("mixed/"))
      continue;
    if (name == "base/w2a8g8") continue;  // int2 of JAX's own, in two bits; the name stands for Qwix' int2, whose backward it refuses
    const json& r = entry.at("rule");
    // Axis numbers and parts of a sequence mean another thing where a batch of sequences is one axis of tokens.
    const bool splits_tokens = r.contains("bwd_weight_grad_tile_size") && r.at("bwd_weight_grad_tile_size") != 1.0;
    if (layout == "btk_kn" && (splits_tokens || (r.contains("tile_size") && r.at("tile_size").is_object()))) continue;
    INFO(name);
    ++cases;
    const auto &lhs = file.tensor(entry.at("lhs").get<std::string>()), &rhs = file.tensor(entry.at("rhs").get<std::string>());
    const int64_t k = lhs.shape.back(), n = rhs.shape.back(), rows = lhs.numel() / k;
    QuantProblem p(rows, k, n, rule_of_user(r), {}, DType::f32, nullptr, "ieee");
    CHECK(quant::not_offered(*p.recipe, false).empty());
    const std::vector<float> x = file.read_floats(lhs.name), w = file.read_floats(rhs.name), g = file.read_floats(entry.at("g").get<std::string>());
    p.set(x, w, g);
    p.forward();
    p.backward();
    compare_within("out", p.y.floats(), file.read_floats(name + "/out"), sums(rows, k, n, x, false, w, false));
    compare_within("dlhs", p.dx.floats(), file.read_floats(name + "/dlhs"), sums(rows, n, k, g, false, w, true));
    compare_within("drhs", p.dw(), file.read_floats(name + "/drhs"), sums(k, rows, n, x, true, g, false));
  }
  CHECK(cases >= 60);
}

TEST_CASE("grouped products agree with Qwix: shared column scales, empty groups, rows past the last group",
          "[quant][golden]") {
  const data::SafetensorsFile file(KVANT_SOURCE_DIR "/tests/reference/data/qwix_ragged_dot_qt.safetensors");
  int cases = 0;
  for (const char* types : {"w8a8g8", "fp8_full", "fp8"}) {
    for (const char* groups : {"full", "short", "first_empty", "one", "all_empty"}) {
      const std::string name = std::string(types) + "/" + groups + "_f32";
      if (!file.metadata().contains("case/" + name)) continue;
      ++cases;
      const json entry = json::parse(file.metadata("case/" + name));
      std::vector<int> offsets{0};
      for (const int32_t size : file.read_integers(entry.at("group_sizes").get<std::string>()))
        offsets.push_back(offsets.back() + size);
      run_case(file, name, entry,
               kvant::test::types(entry.at("rhs_qtype").get<std::string>(), entry.at("lhs_qtype").get<std::string>(),
                                  entry.at("grad_qtype").get<std::string>()),
               offsets);
    }
  }
  CHECK(cases >= 12);
}
