// The whole model against what the real MaxText computed, and the verifier against files that it must not pass.
#include "data/safetensors.hpp"
#include "data/safetensors_writer.hpp"
#include "support/temporary_folder.hpp"
#include "train/verify.hpp"

#include <catch2/catch_test_macros.hpp>
#include <catch2/matchers/catch_matchers_string.hpp>

#include <cstring>
#include <filesystem>

namespace {

using Catch::Matchers::ContainsSubstring;

std::string data_file(const std::string& name) { return std::string(KVANT_SOURCE_DIR) + "/tests/reference/data/" + name; }

kvant::train::Verification verify(const std::string& file) {
  const kvant::Exec exec;
  kvant::comm::Communicator world = kvant::comm::Communicator::world();
  return kvant::train::verify_file(file, exec, world);
}

void check_all(const kvant::train::Verification& v) {
  CHECK(v.not_compared.empty());
  for (const kvant::train::Comparison& c : v.comparisons) {
    INFO(c.tensor << ": " << c.measure << " " << c.error << ", limit " << c.limit);
    CHECK(c.holds());
  }
  CHECK(v.holds());
}

/// A copy of a recorded file with one change.
struct Change {
  std::string tensor;
  float factor = 1;            ///< on its first element
  std::string extra_tensor;    ///< a tensor more
  std::map<std::string, std::string> metadata;
  std::string without;      ///< tensors whose name begins like this are left out
  std::string transposed;   ///< a matrix whose two extents are exchanged
};

std::string changed(const kvant::test::TemporaryFolder& folder, const std::string& name, const Change& change) {
  const kvant::data::SafetensorsFile file(data_file(name));
  std::vector<kvant::data::TensorToWrite> tensors;
  for (const kvant::data::StoredTensor& t : file.tensors()) {
    if (!change.without.empty() && t.name.starts_with(change.without)) continue;
    const std::vector<int64_t> shape = t.name == change.transposed ? std::vector<int64_t>{t.shape.at(1), t.shape.at(0)} : t.shape;
    tensors.push_back({t.name, *t.type(), shape, [&file, t, change](std::vector<char>& bytes) {
                         bytes.resize(t.bytes());
                         file.read_into(t.name, bytes.data());
                         if (t.name != change.tensor) return;
                         float first;
                         std::memcpy(&first, bytes.data(), 4);
                         first *= change.factor;
                         std::memcpy(bytes.data(), &first, 4);
                       }});
  }
  if (!change.extra_tensor.empty())
    tensors.push_back({change.extra_tensor, kvant::DType::f32, {1}, [](std::vector<char>& bytes) { bytes.assign(4, 0); }});
  std::map<std::string, std::string> metadata = file.metadata();
  for (const auto& [key, value] : change.metadata) metadata[key] = value;
  const std::string path = (folder.path() / name).string();
  kvant::data::write_safetensors(path, metadata, tensors);
  return path;
}

void copy_weights(const kvant::test::TemporaryFolder& folder) {
  std::filesystem::copy_file(data_file("ds3_tiny.params.safetensors"), folder.path() / "ds3_tiny.params.safetensors");
}

}  // namespace

TEST_CASE("the plain model is MaxText's") { check_all(verify(data_file("ds3_tiny.none.safetensors"))); }

TEST_CASE("packed documents, padding, balance loss and bias update are MaxText's") { check_all(verify(data_file("ds3_tiny.packed.safetensors"))); }

TEST_CASE("the model quantized by fp8_full is MaxText's, in the reference's arithmetic") {
  // Schemes are plugins: the build's are found beside the test's library.
  check_all(verify(data_file("ds3_tiny.fp8_full.safetensors")));
}

TEST_CASE("a recorded value that differs is found") {
  const kvant::test::TemporaryFolder folder;
  copy_weights(folder);
  CHECK_FALSE(verify(changed(folder, "ds3_tiny.none.safetensors", {"grad/decoder/logits_dense/kernel", 2.0f, "", {}, "", ""})).holds());
}

TEST_CASE("a stored tensor that nothing is compared with fails") {
  const kvant::test::TemporaryFolder folder;
  copy_weights(folder);
  const kvant::train::Verification v = verify(changed(folder, "ds3_tiny.none.safetensors", {"", 1, "grad/decoder/no_such_layer", {}, "", ""}));
  CHECK_FALSE(v.holds());
  CHECK(v.not_compared == std::vector<std::string>{"grad/decoder/no_such_layer"});
}

TEST_CASE("files that cannot be verified say why") {
  const kvant::test::TemporaryFolder folder;
  SECTION("weights that are not beside the file") {
    CHECK_THROWS_WITH(verify(changed(folder, "ds3_tiny.none.safetensors", {})), ContainsSubstring("ds3_tiny.params.safetensors"));
  }
  SECTION("another format") {
    CHECK_THROWS_WITH(verify(changed(folder, "ds3_tiny.none.safetensors", {"", 1, "", {{"format", "other/1"}}, "", ""})), ContainsSubstring("other/1"));
  }
  SECTION("an unknown family") {
    copy_weights(folder);
    CHECK_THROWS_WITH(verify(changed(folder, "ds3_tiny.none.safetensors", {"", 1, "", {{"config", R"({"model_name": "mixtral-8x7b"})"}}, "", ""})),
                      ContainsSubstring("mixtral-8x7b"));
  }
  SECTION("a setting that is not ours") {
    copy_weights(folder);
    CHECK_THROWS_WITH(verify(changed(folder, "ds3_tiny.none.safetensors", {"", 1, "", {{"config", R"({"model_name": "deepseek3-tiny", "no_such_key": 3})"}}, "", ""})),
                      ContainsSubstring("no_such_key"));
  }
  SECTION("metadata that is not what it must be") {
    copy_weights(folder);
    for (const auto& [key, text, complaint] : {std::tuple("config", "[1]", "\"config\" is no JSON object"), std::tuple("config", "{\"model_name\": 3}", "names no model"),
                                               std::tuple("grad_norms", "{", "\"grad_norms\" is no JSON object"),
                                               std::tuple("sensitivity", "{}", "has no number /logits/mean"),
                                               std::tuple("sensitivity", R"({"logits": {"mean": 1e9}})", "would let anything hold")}) {
      INFO(key << " = " << text);
      CHECK_THROWS_WITH(verify(changed(folder, "ds3_tiny.none.safetensors", {"", 1, "", {{key, text}}, "", ""})),
                        ContainsSubstring(complaint) && ContainsSubstring("ds3_tiny.none.safetensors"));
    }
  }
  SECTION("values that must be there") {
    copy_weights(folder);
    CHECK_THROWS_WITH(verify(changed(folder, "ds3_tiny.none.safetensors", {"", 1, "", {}, "grad/", ""})), ContainsSubstring("stored_gradients is \"all\""));
    CHECK_THROWS_WITH(verify(changed(folder, "ds3_tiny.none.safetensors", {"", 1, "", {}, "logits", ""})), ContainsSubstring("the logits are not recorded"));
  }
  SECTION("weights of another shape") {
    const kvant::data::SafetensorsFile weights(data_file("ds3_tiny.params.safetensors"));
    std::string name;
    for (const kvant::data::StoredTensor& t : weights.tensors())
      if (t.shape.size() == 2 && t.shape[0] != t.shape[1]) name = t.name;
    REQUIRE_FALSE(name.empty());
    changed(folder, "ds3_tiny.params.safetensors", {"", 1, "", {}, "", name});
    CHECK_THROWS_WITH(verify(changed(folder, "ds3_tiny.none.safetensors", {})), ContainsSubstring(name) && ContainsSubstring("has the shape"));
  }
  SECTION("no file at all") { CHECK_THROWS_WITH(verify(data_file("absent.safetensors")), ContainsSubstring("absent.safetensors")); }
}
