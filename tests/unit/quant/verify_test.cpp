// The recorded quantizations of the reference through the calibrators and codecs that a run uses, and files that must
// not hold.
#include "quant/verify.hpp"
#include "base/error.hpp"
#include "base/kokkos.hpp"
#include "support/recorded_file.hpp"

#include <catch2/catch_test_macros.hpp>
#include <catch2/matchers/catch_matchers_string.hpp>

#include <cstring>
#include <functional>

using namespace kvant;
using namespace kvant::quant;
using Catch::Matchers::ContainsSubstring;

namespace {

std::string data_file(const std::string& name) { return kvant::test::recorded_path(name + ".safetensors"); }

std::size_t beyond(const VerifiedFile& v) { return kvant::test::beyond(v).size(); }
using kvant::test::bytes_of;

}  // namespace

TEST_CASE("recorded quantizers hold", "[quant][golden]") {
  for (const char* name : {"qwix_convert", "qwix_quantize", "qwix_mx_wheel_0_1_8"}) {
    const data::SafetensorsFile file(data_file(name));
    REQUIRE(is_recorded(file));
    const VerifiedFile v = verify_recorded(file, Exec{});
    INFO(name);
    CHECK(beyond(v) == 0);
    CHECK(v.not_compared.empty());
    CHECK(v.tensors.size() > (std::string(name) == "qwix_quantize" ? 1200u : 15u));
  }
  CHECK(is_recorded(data::SafetensorsFile(data_file("qwix_dot_general_qt"))));
  CHECK_FALSE(is_recorded(data::SafetensorsFile(data_file("ds3_tiny.none"))));
}

TEST_CASE("one wrong bit of a recorded file does not hold", "[quant][golden]") {
  const test::TemporaryFolder folder;
  const std::string original = bytes_of(data_file("qwix_mx_wheel_0_1_8"));
  const data::SafetensorsFile file(data_file("qwix_mx_wheel_0_1_8"));
  uint64_t header = 0;
  for (int i = 7; i >= 0; --i) header = header << 8 | static_cast<unsigned char>(original[static_cast<std::size_t>(i)]);
  for (const char* tensor : {"scale", "q", "dq", "stat_absmax"}) {
    const auto& stored = file.tensor(std::string("mxfp8/absmax/c0t1x32/d_f32/") + tensor);
    std::string changed = original;
    changed[8 + header + stored.begin] = static_cast<char>(changed[8 + header + stored.begin] ^ 1);
    const std::string path = folder.write("changed.safetensors", changed);
    INFO(tensor);
    CHECK(beyond(verify_recorded(data::SafetensorsFile(path), Exec{})) == 1);
  }
}

TEST_CASE("a recorded file is compared whole, and its cases must be known", "[quant][golden]") {
  const test::TemporaryFolder folder;
  const std::string original = bytes_of(data_file("qwix_mx_wheel_0_1_8"));
  const auto with = [&](const std::string& from, const std::string& to) {
    REQUIRE(from.size() == to.size());  // the header keeps its length
    std::string changed = original;
    for (auto at = changed.find(from); at != std::string::npos; at = changed.find(from, at))
      changed.replace(at, from.size(), to);
    return folder.write("changed.safetensors", changed);
  };
  const std::string unknown = with("\\\"qtype\\\": \\\"mxfp8\\\"", "\\\"qtype\\\": \\\"mxfp9\\\"");
  CHECK_THROWS_WITH(verify_recorded(data::SafetensorsFile(unknown), Exec{}), ContainsSubstring("mxfp9"));
  const std::string method = with("\\\"calibration\\\": \\\"absmax\\\"", "\\\"calibration\\\": \\\"absmix\\\"");
  CHECK_THROWS_WITH(verify_recorded(data::SafetensorsFile(method), Exec{}), ContainsSubstring("absmix"));
  const std::string fewer = with("\\\"mxfp4/absmax/c0t1x32/d_bf16\\\"]", "\\\"mxfp4/absmax/c0t1x32/d_f32\\\" ]");
  CHECK(verify_recorded(data::SafetensorsFile(fewer), Exec{}).not_compared.size() == 4);
}

TEST_CASE("a file that describes its cases wrongly is refused by name", "[quant][bad_input]") {
  const test::TemporaryFolder folder;
  const std::string original = bytes_of(data_file("qwix_mx_wheel_0_1_8"));
  uint64_t length = 0;
  std::memcpy(&length, original.data(), sizeof length);
  const std::string data = original.substr(8 + length);
  const auto refusal = [&](const std::function<void(nlohmann::json&, nlohmann::json&)>& change) -> std::string {
    auto header = nlohmann::json::parse(original.substr(8, length));
    const std::string key = "case/mxfp8/absmax/c0t1x32/d_f32";
    auto entry = nlohmann::json::parse(header["__metadata__"][key].get<std::string>());
    change(header, entry);
    if (!entry.is_null()) header["__metadata__"][key] = entry.dump();
    std::string text = header.dump();
    text.resize((text.size() + 7) / 8 * 8, ' ');
    const uint64_t size = text.size();
    const std::string path = folder.write("wrong.safetensors", std::string(reinterpret_cast<const char*>(&size), sizeof size) + text + data);
    try {
      verify_recorded(data::SafetensorsFile(path), Exec{});
    } catch (const UsageError& e) {
      return e.what();
    }
    return "(not refused)";
  };
  using nlohmann::json;
  const auto refuses = [&](const std::function<void(json&, json&)>& change, const std::string& sentence) {
    const std::string found = refusal(change);
    CHECK_THAT(found, ContainsSubstring("wrong.safetensors") && ContainsSubstring(sentence));
  };
  const std::string tensor = "mxfp8/absmax/c0t1x32/d_f32/";
  refuses([](json&, json& e) { e.erase("scale_dtype"); }, "scale_dtype");
  refuses([](json&, json& e) { e["tiled_axes"] = "one"; }, "The case \"mxfp8/absmax/c0t1x32/d_f32\"");
  refuses([](json&, json& e) { e["tiled_axes"][0][0] = 7; }, "has no axis 7");
  refuses([](json&, json& e) { e["channelwise_axes"] = {-1}; }, "has no axis -1");
  refuses([](json& h, json& e) { h["__metadata__"]["case/mxfp8/absmax/c0t1x32/d_f32"] = "{"; e = nullptr; }, "parse error");
  refuses([](json& h, json&) { h["__metadata__"]["cases"] = "7"; }, "The list of cases");
  // Two tensors under one another's names: each then has the other's size.
  for (const char* name : {"scale", "stat_absmax"})
    refuses([&](json& h, json&) { std::swap(h[tensor + name], h[tensor + "dq"]); }, "values; its case has");
  refuses([&](json& h, json&) { std::swap(h[tensor + "scale"], h[tensor + "q"]); }, "values; its case has");
}
