#include "data/safetensors.hpp"

#include "base/error.hpp"
#include "support/temporary_folder.hpp"

#include <catch2/catch_test_macros.hpp>
#include <catch2/matchers/catch_matchers_string.hpp>

#include <cmath>

using namespace kvant;
using Catch::Matchers::ContainsSubstring;
using kvant::data::SafetensorsFile;

namespace {

std::string file_of(const std::string& header, const std::string& data, int64_t claimed = -1) {
  const uint64_t length = claimed < 0 ? header.size() : static_cast<uint64_t>(claimed);
  std::string bytes;
  for (int i = 0; i < 8; ++i) bytes.push_back(static_cast<char>(length >> (8 * i) & 0xff));
  return bytes + header + data;
}

}  // namespace

TEST_CASE("tensors and metadata are read", "[data]") {
  const test::TemporaryFolder folder;
  const std::string data("\x00\x00\x80\x3f\x00\x00\x00\xc0\x80\x3f\x00\x3c\xff\x07", 14);
  const std::string header =
      R"({"__metadata__":{"format":"x","note":"é"},"b":{"dtype":"BF16","shape":[1],"data_offsets":[8,10]},"a":{"dtype":"F32","shape":[2],"data_offsets":[0,8]},)"
      R"("h":{"dtype":"F16","shape":[],"data_offsets":[10,12]},"i":{"dtype":"I8","shape":[1,2],"data_offsets":[12,14]},"e":{"dtype":"I64","shape":[0,3],"data_offsets":[14,14]}} )";
  const SafetensorsFile file(folder.write("ok.safetensors", file_of(header, data)));
  CHECK(file.metadata("format") == "x");
  CHECK_THROWS_WITH(file.metadata("absent"), ContainsSubstring("absent"));
  CHECK(file.tensors().size() == 5);
  CHECK(file.tensors().front().name == "a");
  CHECK(file.read_floats("a") == std::vector<float>{1.0f, -2.0f});
  CHECK(file.read_floats("b") == std::vector<float>{1.0f});
  CHECK(file.read_floats("h") == std::vector<float>{1.0f});
  CHECK(file.tensor("h").numel() == 1);
  CHECK(file.read_integers("i") == std::vector<int32_t>{-1, 7});
  CHECK(file.read_integers("e").empty());
  CHECK(file.tensor("b").type() == DType::bf16);
  CHECK_FALSE(file.tensor("e").type().has_value());
  CHECK_FALSE(file.has("c"));
  CHECK_THROWS_WITH(file.tensor("c"), ContainsSubstring("'c'") && ContainsSubstring("5"));
  CHECK_THROWS_WITH(file.read_floats("i"), ContainsSubstring("I8"));
  CHECK_THROWS_WITH(file.read_integers("a"), ContainsSubstring("F32"));
}

TEST_CASE("a file that lies is refused before its data is touched", "[data]") {
  const test::TemporaryFolder folder;
  int number = 0;
  const auto refused = [&](const std::string& bytes, const char* text) {
    const std::string path = folder.write("bad" + std::to_string(number++) + ".safetensors", bytes);
    CHECK_THROWS_WITH(SafetensorsFile(path), ContainsSubstring(text) && ContainsSubstring(path));
  };
  const auto entry = [](const char* dtype, const char* shape, const char* offsets) {
    return std::string(R"({"a":{"dtype":")") + dtype + R"(","shape":)" + shape + R"(,"data_offsets":)" + offsets + "}}";
  };
  const std::string eight(8, '\0');
  refused("abc", "too few");
  refused(file_of("{}", "", 1000), "1000 bytes");
  refused(file_of("{}", "", INT64_MAX), "bytes long");
  refused(file_of("{]", ""), "not valid JSON");
  refused(file_of("[]", ""), "not an object");
  refused(file_of(R"({"a":1})", ""), "needs dtype");
  refused(file_of(R"({"a":{"dtype":"F32","shape":[2]}})", eight), "needs dtype");
  refused(file_of(entry("F31", "[2]", "[0,8]"), eight), "F31");
  refused(file_of(entry("F32", "[3]", "[0,8]"), eight), "ask for 12");
  refused(file_of(entry("F32", "[2]", "[0,16]"), eight), "8 bytes of data");
  refused(file_of(entry("F32", "[2]", "[8,0]"), eight), "8 bytes of data");
  refused(file_of(entry("F32", "[-2]", "[0,8]"), eight), "no whole number");
  refused(file_of(entry("F32", "[2.5]", "[0,8]"), eight), "no whole number");
  refused(file_of(entry("F32", "[4294967296,4294967296]", "[0,8]"), eight), "64 bits");
  refused(file_of(entry("F32", "[1]", "[4,8]"), eight), "begins at byte 4");
  refused(file_of(entry("F32", "[1]", "[0,4]"), eight), "end at byte 4");
  refused(
      file_of(
          R"({"a":{"dtype":"U8","shape":[8],"data_offsets":[0,8]},"a":{"dtype":"U8","shape":[8],"data_offsets":[0,8]}})",
          eight),
      "twice");
  refused(
      file_of(
          R"({"a":{"dtype":"U8","shape":[8],"data_offsets":[0,8]},"b":{"dtype":"U8","shape":[4],"data_offsets":[4,8]}})",
          eight),
      "begins at byte 4");
  refused(file_of(R"({"__metadata__":{"k":3}})", ""), "'k' is not a string");
  refused(file_of(R"({"__metadata__":[]})", ""), "object of strings");
  CHECK_THROWS_WITH(SafetensorsFile((folder / "absent").string()), ContainsSubstring("cannot be read"));
}

TEST_CASE("64-bit integers that do not fit are refused", "[data]") {
  const test::TemporaryFolder folder;
  const std::string header = R"({"a":{"dtype":"I64","shape":[1],"data_offsets":[0,8]}})";
  const SafetensorsFile file(folder.write("a.safetensors", file_of(header, std::string("\0\0\0\0\1\0\0\0", 8))));
  CHECK_THROWS_WITH(file.read_integers("a"), ContainsSubstring("4294967296"));
}

TEST_CASE("a header that nests deeper than any header does is refused before it is parsed", "[data]") {
  const test::TemporaryFolder folder;
  const std::string header = "{\"a[[\":" + std::string(200000, '[') + std::string(200000, ']') + "}";
  const std::string path = folder.write("deep.safetensors", file_of(header, ""));
  CHECK_THROWS_WITH(SafetensorsFile(path), ContainsSubstring("nests 200001 brackets"));
}
