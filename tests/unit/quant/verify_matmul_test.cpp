// Recorded products of the reference through Kvant's codecs and kernels: dense, grouped, of stored operands; and files that
// must not hold.
#include "quant/verify_matmul.hpp"
#include "base/error.hpp"
#include "base/kokkos.hpp"
#include "support/recorded_file.hpp"

#include <catch2/catch_test_macros.hpp>
#include <catch2/matchers/catch_matchers_string.hpp>

#include <algorithm>
#include <set>

using namespace kvant;
using namespace kvant::quant;
using Catch::Matchers::ContainsSubstring;
using kvant::test::beyond;
using kvant::test::RecordedFile;
using nlohmann::json;

namespace {

const std::string dots = "qwix_dot_general_qt.safetensors", ragged = "qwix_ragged_dot_qt.safetensors", stored = "qwix_qarray_matmul.safetensors";

VerifiedFile verify(const std::string& path) { return verify_recorded(data::SafetensorsFile(path), Exec{}); }

/// Cases whose result was compared.
std::size_t cases_of(const VerifiedFile& v) {
  std::set<std::string> names;
  for (const VerifiedTensor& t : v.tensors)
    if (t.tensor.ends_with("/out")) names.insert(t.tensor);
  return names.size();
}

std::string refusal(const RecordedFile& file, const std::string& name, const std::function<void(json&, json&)>& change) {
  try {
    verify(file.described(name, change));
  } catch (const UsageError& e) {
    return e.what();
  }
  return "(not refused)";
}

}  // namespace

TEST_CASE("recorded dense products hold, forward and both gradients", "[quant][golden]") {
  const VerifiedFile v = verify(test::recorded_path(dots));
  CHECK(v.not_compared.empty());
  CHECK(cases_of(v) == 141);
  // Every scale, code and result of the cases; and the configurations that the reference refuses.
  CHECK(v.tensors.size() == 1425);
  CHECK(beyond(v).empty());
  std::vector<std::string> not_offered;
  for (const NotOffered& n : v.not_offered) not_offered.push_back(n.name);
  CHECK(not_offered == std::vector<std::string>{"sparsity/2of4/int8", "sparsity/1of4/fp8_full", "rejected/mx_without_tile", "rejected/unknown_method"});
  CHECK(std::ranges::count_if(v.tensors, [](const VerifiedTensor& t) { return t.tensor.starts_with("rejected/"); }) == 13);
  // Integers in float32 agree in every bit.
  for (const char* tensor : {"base/int8/out", "base/int8/dlhs", "base/int8/drhs", "layout/bthd_bshd_attention/int8/drhs", "sr/uniform/int8_all_axes/dlhs"}) {
    const auto found = std::ranges::find(v.tensors, tensor, &VerifiedTensor::tensor);
    REQUIRE(found != v.tensors.end());
    CHECK(found->limit == 0);
  }
}

TEST_CASE("recorded grouped products hold: empty groups, rows past the last one", "[quant][golden]") {
  const VerifiedFile v = verify(test::recorded_path(ragged));
  CHECK(beyond(v).empty());
  CHECK(v.not_compared.empty());
  CHECK(v.not_offered.empty());
  CHECK(cases_of(v) == 26);
  CHECK(v.tensors.size() == 286);
}

TEST_CASE("recorded products of stored operands hold: one side, tiles, zero points, groups", "[quant][golden]") {
  const VerifiedFile v = verify(test::recorded_path(stored));
  CHECK(beyond(v).empty());
  CHECK(v.not_compared.empty());
  CHECK(cases_of(v) == 45);
  CHECK(v.tensors.size() == 213);
}

TEST_CASE("one wrong bit of each kind of tensor of a product does not hold", "[quant][golden]") {
  struct Flip {
    const char* tensor;
    std::size_t byte;
    unsigned bits;
  };
  const auto check = [](const std::string& name, const std::vector<Flip>& flips) {
    const RecordedFile file(name);
    const std::vector<std::string> before = beyond(verify(test::recorded_path(name)));
    for (const Flip& f : flips) {
      INFO(f.tensor);
      std::vector<std::string> after = beyond(verify(file.flipped(f.tensor, f.byte, f.bits)));
      // What was not beyond its limit before: the tensor itself; for noise and inputs, what is made of them.
      std::erase_if(after, [&](const std::string& n) { return std::ranges::find(before, n) != before.end(); });
      const std::string tensor = f.tensor;
      if (tensor.ends_with("/noise") || tensor.starts_with("input/"))
        CHECK_FALSE(after.empty());
      else if (tensor.starts_with("cal/rms"))  // what follows goes on from the recorded scale
        CHECK(std::ranges::count(after, tensor) == 1);
      else
        CHECK(after == std::vector<std::string>{tensor});
    }
  };
  // The lowest bit, where every bit is compared; else one that is worth more than the bound.
  check(dots, {{"base/int8/fwd_lhs_scale", 0, 1},
               {"base/int8/fwd_rhs_scale", 0, 1},
               {"base/int8/fwd_lhs_q", 0, 1},
               {"base/fp8_full/fwd_rhs_q", 0, 1},
               {"cal/minmax_act/int8_fwd/fwd_lhs_zero_point", 0, 1},
               {"base/int8_bf16/fwd_lhs_scale", 0, 1},
               {"base/int8/dlhs_lhs_scale", 0, 1},
               {"base/int8/drhs_lhs_q", 0, 1},
               {"bare/original_requantized/dlhs_rhs_q", 0, 1},
               {"bare/original_requantized/drhs_rhs_scale", 0, 1},
               {"bare/fake_quant_minmax/drhs_rhs_zero_point", 0, 1},
               {"base/int8/out", 0, 1},
               {"base/int8/dlhs", 0, 1},
               {"base/int8/drhs", 0, 1},
               {"base/fp8_full/out", 2, 64},
               {"base/int8_fwd/dlhs", 2, 64},
               {"base/fp8_full_bf16/drhs", 0, 64},
               {"cal/rms/int8/fwd_lhs_scale", 1, 1},
               {"sr/uniform/int8/noise", 3, 128},
               {"sr/low_bit_uniform/int8_all_axes/noise", 3, 128},
               {"input/btk_khd_n/g_f32", 2, 64}});
  check(ragged, {{"w8a8g8/full_f32/fwd_lhs_q", 0, 1},
                 {"w8a8g8/full_f32/fwd_rhs_scale", 0, 1},
                 {"w8a8g8/full_f32/drhs_rhs_q", 0, 1},
                 {"w8a8/full_f32/dlhs_rhs_q", 0, 1},
                 {"w8a8/full_f32/dlhs_rhs_scale", 0, 1},
                 {"w8a8g8/short_f32/out", 0, 1},
                 {"w8a8g8/short_f32/dlhs", 0, 1},
                 {"w8a8g8/short_f32/drhs", 0, 1},
                 {"input/group_sizes_all_empty", 0, 1}});
  check(stored, {{"w8a8/lhs_q", 0, 1}, {"minmax_lhs/lhs_zero_point", 0, 1}, {"w8a8/out", 0, 1}, {"ragged/per_group/out", 0, 1}, {"nf4_w_bf16/out", 0, 64}});
}

TEST_CASE("a rule that the reference refuses must be refused here", "[quant][golden]") {
  const RecordedFile file(dots);
  const std::string path = file.described("base/int8", [](json& header, json&) {
    json rejected = json::parse(header["__metadata__"]["rejected"].get<std::string>());
    rejected["fine"] = {{"layout", "btk_kn"}, {"rule", {{"weight_qtype", "int8"}, {"act_qtype", "int8"}, {"tile_size", 8}}}, {"error", "none"}};
    rejected["no_layout"] = {{"layout", "nowhere"}, {"rule", {{"weight_qtype", "int8"}}}, {"error", "none"}};
    rejected["batched"] = {{"layout", "bthd_hdc_batch_h"}, {"rule", {{"weight_qtype", "int8"}}}, {"error", "none"}};
    rejected["static"] = {{"layout", "btk_kn"}, {"rule", {{"weight_qtype", "int8"}, {"act_static_scale", true}}}, {"error", "none"}};
    header["__metadata__"]["rejected"] = rejected.dump();
  });
  const VerifiedFile v = verify(path);
  const std::vector<std::string> accepted = beyond(v);
  CHECK(std::ranges::count(accepted, "rejected/fine") == 1);
  std::string reasons;
  for (const NotOffered& n : v.not_offered) reasons += n.name + ": " + n.reason + "\n";
  CHECK_THAT(reasons, ContainsSubstring("rejected/no_layout: no case of its layout") && ContainsSubstring("rejected/batched: no case of its layout") &&
                          ContainsSubstring("rejected/static: the field act_static_scale is not translated"));
}

TEST_CASE("a file that describes its products wrongly is refused by name", "[quant][bad_input]") {
  const std::string name = "base/int8";
  const RecordedFile file(dots);
  const auto refuses = [&](const std::function<void(json&, json&)>& change, const std::string& sentence) {
    CHECK_THAT(refusal(file, name, change), ContainsSubstring("wrong.safetensors") && ContainsSubstring(sentence));
  };
  refuses([](json&, json& e) { e.erase("config"); }, "The case \"base/int8\"");
  refuses([](json&, json& e) { e["config"] = "int8"; }, "config_defaults");
  refuses([](json&, json& e) { e["config"]["no_such_setting"] = 1; }, "no_such_setting");
  refuses([](json& h, json&) { h["__metadata__"]["config_defaults"] = "[]"; }, "no JSON object");
  refuses([](json& h, json&) { h["__metadata__"]["config_defaults"] = R"({"surprise": 1})"; }, "is not among config_defaults");
  refuses([](json&, json& e) { e["config"]["lhs_qtype"] = "int9"; }, "int9");
  refuses([](json&, json& e) { e["config"]["lhs_qtype"] = "int4"; }, "its configuration makes it qarray:int4");
  refuses([](json&, json& e) { e["config"]["lhs_calibration_method"] = "minmax"; }, "_zero_point");
  refuses([](json&, json& e) { e["config"]["lhs_calibration_method"] = "absmix"; }, "absmix");
  refuses([](json&, json& e) { e["config"]["tile_size"] = 7; }, "by 7");
  refuses([](json&, json& e) { e["config"]["tile_size"] = -8; }, "-8");
  refuses([](json&, json& e) { e["config"]["tile_size"] = 1e300; }, "of its axis");
  refuses([](json&, json& e) { e["config"]["tile_size"] = {{"3", 2}}; }, "has no axis 3");
  refuses([](json&, json& e) { e["config"]["tile_size"] = {{"x", 2}}; }, "parse error");
  refuses([](json&, json& e) { e["config"]["dlhs_stochastic_rounding_noise_fn"] = {{"method", "uniform"}}; }, "none is recorded");
  refuses([](json&, json& e) { e["config"]["dlhs_stochastic_rounding_noise_fn"] = {{"method", "loud"}}; }, "loud");
  refuses([](json&, json& e) { e["lhs"] = "input/nothing"; }, "input/nothing");
  refuses([](json&, json& e) { e["lhs"] = "base/int8/fwd_lhs_q"; }, "F32 and BF16 are expected");
  refuses([](json&, json& e) { e["g"] = "input/hand/g"; }, "The gradient is of the shape [2, 2]");
  refuses([](json&, json& e) { e["dimension_numbers"] = json::parse("[[[2], [1]], [[], []]]"); }, "do not fit operands");
  refuses([](json&, json& e) { e["dimension_numbers"] = json::parse("[[[2, 2], [0, 0]], [[], []]]"); }, "stands twice");
  refuses([](json&, json& e) { e["dimension_numbers"] = json::parse("[[[2], [0]], [[4], [0]]]"); }, "has no axis 4");
  refuses([](json&, json& e) { e["dimension_numbers"] = json::parse("[[[2], [0]], [[2], [0]]]"); }, "and batch it");
  refuses([](json&, json& e) { e["dimension_numbers"] = 7; }, "is not described");
  refuses([](json&, json& e) { e["dimension_numbers"] = json::parse("[[[\"2\"], [0]], [[], []]]"); }, "where a whole number was expected");
  refuses([](json&, json& e) { e["dots"]["fwd"]["lhs"] = "float:float32"; }, "its configuration makes it qarray:int8");
  refuses([](json&, json& e) { e["dots"]["dlhs"]["dimension_numbers"] = json::parse("[[[1], [0]], [[], []]]"); }, "dimension numbers");
  refuses([](json&, json& e) { e["dots"].erase("drhs"); }, "drhs");
  // Tensors under one another's names.
  refuses([](json& h, json&) { std::swap(h["base/int8/out"], h["base/int8/dlhs"]); }, "its case has");
  refuses([](json& h, json&) { std::swap(h["base/int8/fwd_lhs_scale"], h["base/int8/fwd_rhs_scale"]); }, "its case has");
  refuses([](json& h, json&) { std::swap(h["base/int8/fwd_lhs_q"], h["base/int8/fwd_rhs_q"]); }, "its case has");
  refuses([](json& h, json&) { std::swap(h["base/int8/out"], h["base/int8_bf16/out"]); }, "its case gives float32");
  refuses([](json& h, json&) { h["base/int8/out"]["shape"] = {1, 2, 3, 2, 24}; }, "5 axes");
  refuses([](json& h, json&) { h["__metadata__"]["case/base/int8"] = std::string(1'000'000, '['); }, "The case \"base/int8\": The text nests 1000000 brackets");
  refuses([](json& h, json&) { h["__metadata__"]["cases"] = std::string(1'000'000, '['); }, "The list of cases: The text nests");
  refuses([](json& h, json&) { h["__metadata__"]["rejected"] = "7"; }, "\"rejected\"");
  refuses([](json& h, json&) { h["__metadata__"]["rejected"] = R"({"odd": {"layout": "btk_kn"}})"; }, "The refused rule \"odd\"");

  const auto of_noise = [&](const json& shape, const std::string& sentence) {
    const std::string found = refusal(file, "sr/uniform/int8", [&](json& h, json&) { h["sr/uniform/int8/noise"]["shape"] = shape; });
    CHECK_THAT(found, ContainsSubstring("sr/uniform/int8") && ContainsSubstring(sentence));
  };
  of_noise({1, 2, 1}, "does not fit a gradient");
  of_noise({2}, "does not fit a gradient");
  const auto backward = [](json&, json& e) { e["config"]["dlhs_grad_qtype"] = "int8", e["config"]["use_original_residuals"] = false; };
  CHECK_THAT(refusal(file, "cal/minmax_weight/int4_fwd", backward), ContainsSubstring("qarray:int4 with zero points; the reference cannot read such codes"));
  CHECK_THAT(refusal(file, "base/nf4_w", backward), ContainsSubstring("qarray:nf4; the reference cannot read such codes"));
  CHECK_THAT(refusal(file, "cal/minmax_act/int8_fwd", [](json&, json& e) { e["config"]["rhs_calibration_method"] = "minmax"; }), ContainsSubstring("zero_point"));
  CHECK_THAT(refusal(file, "tile/unit/int8_fwd", backward),
             ContainsSubstring("cannot be moved to the gradient"));
}

TEST_CASE("grouped products and stored operands that are described wrongly are refused by name", "[quant][bad_input]") {
  const RecordedFile groups(ragged), operands(stored);
  const auto refuses = [&](const RecordedFile& file, const std::string& name, const std::function<void(json&, json&)>& change, const std::string& sentence) {
    CHECK_THAT(refusal(file, name, change), ContainsSubstring("wrong.safetensors") && ContainsSubstring(name) && ContainsSubstring(sentence));
  };
  const std::string group = "w8a8g8/full_f32";
  refuses(groups, group, [](json&, json& e) { e["rhs"] = e["lhs"]; }, "are no grouped product");
  refuses(groups, group, [](json&, json& e) { e["g"] = e["lhs"]; }, "are no grouped product");
  refuses(groups, group, [](json&, json& e) { e["group_sizes"] = e["lhs"]; }, "values; its case has 5");
  refuses(groups, group, [](json&, json& e) { e["grad_qtype"] = 3; }, "is not described");
  refuses(groups, group, [](json&, json& e) { e["grad_qtype"] = nullptr; }, "dlhs_rhs_scale");
  refuses(groups, group, [](json&, json& e) { e["dots"]["fwd"]["rhs"] = "raw:int8"; }, "its types make it qarray:int8");
  refuses(groups, group, [](json&, json& e) { e.erase("lhs_qtype"); }, "lhs_qtype");
  refuses(groups, group, [](json& h, json&) { std::swap(h["w8a8g8/full_f32/dlhs"], h["w8a8g8/full_f32/out"]); }, "its case has");
  {
    const std::string path = groups.flipped("input/group_sizes_full", 3, 128);  // a negative size
    CHECK_THROWS_WITH(verify(path), ContainsSubstring("do not fit 24 rows"));
    CHECK_THROWS_WITH(verify(groups.flipped("input/group_sizes_full", 1, 1)), ContainsSubstring("do not fit 24 rows"));
  }
  refuses(operands, "w8a8", [](json&, json& e) { e["op"] = "einsum"; }, "einsum");
  refuses(operands, "w8a8", [](json&, json& e) { e["preferred_element_type"] = "float16"; }, "float16");
  refuses(operands, "w8a8", [](json&, json& e) { e["preferred_element_type"] = "bfloat16"; }, "its case gives bfloat16");
  refuses(operands, "w8a8", [](json&, json& e) { e["lhs_is"] = "float:float32"; }, "its quantizer makes it qarray:int8");
  refuses(operands, "w8a8", [](json&, json& e) { e["lhs_how"] = nullptr; }, "its quantizer makes it float:float32");
  refuses(operands, "w8a8", [](json&, json& e) { e["lhs_how"]["channelwise_axes"] = {0, 0}; }, "stands twice");
  refuses(operands, "w8a8", [](json&, json& e) { e["lhs_how"]["tiled_axes"] = json::parse("[[1, \"int\", 0.5]]"); }, "is neither");
  refuses(operands, "w8a8", [](json&, json& e) { e["lhs_how"]["tiled_axes"] = json::parse("[[1, \"int\", 5]]"); }, "by 5");
  refuses(operands, "w8a8", [](json&, json& e) { e["lhs_how"]["tiled_axes"] = json::parse("[[9, \"int\", 5]]"); }, "no axis 9");
  refuses(operands, "ragged/shared", [](json&, json& e) { e["rhs"] = e["lhs"], e["rhs_how"] = e["lhs_how"]; }, "_scale");
  refuses(operands, "ragged/shared", [](json&, json& e) { e["lhs"] = "input/6x128_lhs_f32"; }, "_scale");
  refuses(operands, "minmax_rhs", [](json&, json& e) { e["lhs_how"]["calibration"] = "minmax"; }, "lhs_zero_point");
}
