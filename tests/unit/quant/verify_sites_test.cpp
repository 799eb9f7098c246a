// Single sites of the real MaxText through the ops that a plan binds, and files that must not hold.
#include "quant/verify_sites.hpp"
#include "base/error.hpp"
#include "base/kokkos.hpp"
#include "data/safetensors_writer.hpp"
#include "support/recorded_file.hpp"

#include <catch2/catch_test_macros.hpp>
#include <catch2/matchers/catch_matchers_string.hpp>

#include <algorithm>
#include <cmath>

using namespace kvant;
using namespace kvant::quant;
using Catch::Matchers::ContainsSubstring;
using kvant::test::beyond;
using kvant::test::RecordedFile;
using nlohmann::json;

namespace {

const std::string integers = "ds3_tiny.int8_sites.safetensors", floats = "ds3_tiny.fp8_full_sites.safetensors";
const std::string attention = "decoder/dense_layers_0/self_attention/";

VerifiedFile verify(const std::string& path) {
  const data::SafetensorsFile params(test::recorded_path("ds3_tiny.params.safetensors"));
  return verify_sites(data::SafetensorsFile(path), params, Exec{});
}

/// A copy with another header or other metadata.
std::string changed(const test::TemporaryFolder& folder, const std::function<void(json& header)>& change) {
  const std::string bytes = test::bytes_of(test::recorded_path(integers));
  uint64_t length = 0;
  std::memcpy(&length, bytes.data(), sizeof length);
  json header = json::parse(bytes.substr(8, length));
  change(header);
  const std::string text = header.dump();
  const uint64_t size = text.size();
  return folder.write("wrong.safetensors", std::string(reinterpret_cast<const char*>(&size), sizeof size) + text + bytes.substr(8 + length));
}

}  // namespace

TEST_CASE("recorded sites of MaxText hold: integers in every bit", "[quant][golden]") {
  const VerifiedFile v = verify(test::recorded_path(integers));
  CHECK(beyond(v).empty());
  CHECK(v.not_compared.empty());
  CHECK(v.tensors.size() == 6);
  CHECK(std::ranges::all_of(v.tensors, [](const VerifiedTensor& t) { return t.limit == 0; }));
}

TEST_CASE("recorded sites of MaxText hold: fp8 to the order of a sum", "[quant][golden]") {
  const VerifiedFile v = verify(test::recorded_path(floats));
  CHECK(beyond(v).empty());
  CHECK(v.not_compared.empty());
  CHECK(v.tensors.size() == 3);
}

TEST_CASE("a wrong bit of a recorded site does not hold", "[quant][golden]") {
  const auto flipped = [](const test::TemporaryFolder& folder, const std::string& name, const std::string& tensor, std::size_t byte, unsigned bits) {
    const data::SafetensorsFile file(test::recorded_path(name));
    std::string bytes = test::bytes_of(test::recorded_path(name));
    uint64_t length = 0;
    std::memcpy(&length, bytes.data(), sizeof length);
    const std::vector<float> values = file.read_floats(tensor);  // one that is not zero
    const auto at = static_cast<std::size_t>(std::ranges::max_element(values, {}, [](float v) { return std::fabs(v); }) - values.begin());
    char& c = bytes.at(8 + length + file.tensor(tensor).begin + 4 * at + byte);
    c = static_cast<char>(static_cast<unsigned char>(c) ^ bits);
    return folder.write("wrong.safetensors", bytes);
  };
  const test::TemporaryFolder folder;
  for (const char* tensor : {"wq_b/out", "wq_b/d_in", "wq_b/d_kernel", "out/out"}) {
    INFO(tensor);
    CHECK(beyond(verify(flipped(folder, integers, attention + tensor, 0, 1))) == std::vector<std::string>{attention + tensor});
  }
  for (const char* tensor : {"wq_b/out", "wq_b/d_in", "wq_b/d_kernel"}) {
    INFO(tensor);
    CHECK(beyond(verify(flipped(folder, floats, attention + tensor, 2, 64))) == std::vector<std::string>{attention + tensor});
  }
  for (const char* tensor : {"wq_b/in", "wq_b/d_out"}) {
    INFO(tensor);
    CHECK_FALSE(beyond(verify(flipped(folder, integers, attention + tensor, 2, 64))).empty());
  }
}

TEST_CASE("recorded sites that are described wrongly are refused by name", "[quant][bad_input]") {
  const test::TemporaryFolder folder;
  const auto refuses = [&](const std::function<void(json&)>& change, const std::string& sentence) {
    CHECK_THROWS_WITH(verify(changed(folder, change)), ContainsSubstring("wrong.safetensors") && ContainsSubstring(sentence));
  };
  const auto metadata = [](const char* key, const std::string& text) { return [=](json& h) { h["__metadata__"][key] = text; }; };
  refuses(metadata("case", "ds3_tiny.int9"), "int9");
  refuses(metadata("case", ""), "stays plain");
  refuses(metadata("qwix_compat", "fast"), "\"fast\"");
  refuses([](json& h) { h["__metadata__"].erase("qwix_compat"); }, "qwix_compat");
  refuses([](json& h) { std::swap(h[attention + "wq_b/d_in"], h[attention + "wq_b/d_out"]); }, "its case has");
  refuses([](json& h) { h[attention + "wq_b/in"]["shape"] = {2, 16, 64}; }, "do not give an output");
  refuses([](json& h) { h[attention + "wq_b/in"]["shape"] = {2048}; }, "do not give an output");
  refuses([](json& h) { h[attention + "wq_b/in"]["shape"] = {1, 1, 2, 32, 32}; }, "5 axes");
  const auto rename = [](json& h, const std::string& from, const std::string& to) {
    h[to] = h[from];
    h.erase(from);
  };
  refuses([&](json& h) { rename(h, attention + "wq_b/d_kernel", attention + "wq_b/d_weight"); }, "d_kernel");
  refuses([&](json& h) { rename(h, attention + "wq_b/out", attention + "wq_b/result"); }, "wq_b/out");
  refuses([&](json& h) {
    for (const char* t : {"in", "out", "d_in", "d_out", "d_kernel"}) rename(h, attention + "wq_b/" + t, attention + "wq_z/" + t);
  }, "wq_z/kernel");
  refuses([&](json& h) {
    for (const char* site : {"wq_b/", "out/"}) rename(h, attention + site + "in", attention + site + "input");
  }, "no site is recorded");
}
