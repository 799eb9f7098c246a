#include "data/safetensors.hpp"
#include "data/safetensors_writer.hpp"
#include "support/temporary_folder.hpp"

#include "base/error.hpp"

#include <catch2/catch_test_macros.hpp>
#include <catch2/matchers/catch_matchers_string.hpp>

#include <cstring>
#include <filesystem>

namespace {

kvant::data::TensorToWrite floats(const std::string& name, const std::vector<float>& values) {
  return {name, kvant::DType::f32, {static_cast<int64_t>(values.size())}, [values](std::vector<char>& bytes) {
            bytes.resize(values.size() * 4);
            if (!values.empty()) std::memcpy(bytes.data(), values.data(), bytes.size());
          }};
}

}  // namespace

TEST_CASE("what is written reads back") {
  const kvant::test::TemporaryFolder folder;
  const std::string path = (folder.path() / "x.safetensors").string();
  kvant::data::write_safetensors(path, {{"made", "here"}}, {floats("b", {1.5f, -2.0f}), floats("a/long name", {3.0f}), floats("empty", {})});
  const kvant::data::SafetensorsFile file(path);
  CHECK(file.read_floats("b") == std::vector<float>{1.5f, -2.0f});
  CHECK(file.read_floats("a/long name") == std::vector<float>{3.0f});
  CHECK(file.tensor("empty").numel() == 0);
  CHECK(file.metadata("made") == "here");
  CHECK_FALSE(std::filesystem::exists(path + ".part"));
}

TEST_CASE("what cannot be written leaves nothing and says why") {
  const kvant::test::TemporaryFolder folder;
  const std::string missing = (folder.path() / "no" / "x.safetensors").string();
  CHECK_THROWS_WITH(kvant::data::write_safetensors(missing, {}, {floats("a", {1})}), Catch::Matchers::ContainsSubstring("No such file"));
  const std::string path = (folder.path() / "x.safetensors").string();
  CHECK_THROWS_WITH(kvant::data::write_safetensors(path, {}, {floats("a", {1}), floats("a", {2})}), Catch::Matchers::ContainsSubstring("Two tensors"));
  CHECK_THROWS_WITH(kvant::data::write_safetensors("/dev/full", {}, {floats("a", {1})}),
                    Catch::Matchers::ContainsSubstring("/dev/full could not be written: it exists and is no regular file"));
  CHECK(std::filesystem::is_character_file("/dev/full"));
  // A full disk: what is written aside goes to /dev/full through a link.
  const std::string full = (folder.path() / "full.safetensors").string();
  std::filesystem::create_symlink("/dev/full", full + ".part");
  CHECK_THROWS_WITH(kvant::data::write_safetensors(full, {}, {floats("a", {1})}), Catch::Matchers::ContainsSubstring("No space left"));
  CHECK_FALSE(std::filesystem::exists(full));
}
