#include "data/safetensors.hpp"

#include "base/error.hpp"
#include "base/json_depth.hpp"
#include "numerics/bf16.hpp"
#include "numerics/float.hpp"

#include <nlohmann/json.hpp>

#include <algorithm>
#include <array>
#include <cstring>
#include <fstream>
#include <limits>
#include <set>

namespace kvant::data {
namespace {

using nlohmann::json;

constexpr uint64_t longest_header = uint64_t{100} << 20;  // the format's own limit

struct TypeInfo {
  std::string_view name;
  uint64_t bytes;
  std::optional<DType> type;
};
constexpr std::array<TypeInfo, 16> types{{{"F32", 4, DType::f32},
                                          {"BF16", 2, DType::bf16},
                                          {"F16", 2, DType::f16},
                                          {"I8", 1, DType::i8},
                                          {"U8", 1, DType::u8},
                                          {"I32", 4, DType::i32},
                                          {"F8_E4M3", 1, DType::e4m3fn},
                                          {"F8_E5M2", 1, DType::e5m2},
                                          {"F64", 8, {}},
                                          {"I64", 8, {}},
                                          {"U64", 8, {}},
                                          {"U32", 4, {}},
                                          {"I16", 2, DType::i16},
                                          {"U16", 2, DType::u16},
                                          {"F8_E8M0", 1, DType::e8m0},
                                          {"BOOL", 1, {}}}};

const TypeInfo* find_type(std::string_view name) {
  const auto it = std::find_if(types.begin(), types.end(), [&](const TypeInfo& t) { return t.name == name; });
  return it == types.end() ? nullptr : &*it;
}

/// Parses the header, refusing a name that stands there twice (a parser would keep the last one in silence).
json parse_header(const std::string& text, const std::string& path) {
  std::set<std::string> seen;
  std::string twice;
  const auto watch = [&](int depth, json::parse_event_t event, json& parsed) {
    if (depth == 1 && event == json::parse_event_t::key && !seen.insert(parsed.get<std::string>()).second)
      twice = parsed.get<std::string>();
    return true;
  };
  constexpr int deepest = 8;  // a header needs 3
  require(json_depth(text) <= deepest, "{}: the header nests {} brackets; a safetensors header has names, shapes and offsets only.", path, json_depth(text));
  json header;
  try {
    header = json::parse(text, watch);
  } catch (const json::exception& e) {
    fail("{}: the header is not valid JSON ({}).", path, e.what());
  }
  require(header.is_object(), "{}: the header is JSON, but not an object.", path);
  require(twice.empty(), "{}: the header names '{}' twice.", path, twice);
  return header;
}

uint64_t unsigned_number(const json& value, const std::string& path, const std::string& name, const char* what) {
  require(value.is_number_unsigned(), "{}: {} of tensor '{}' holds {}, which is no whole number from 0 on.", path, what,
          name, value.dump());
  return value.get<uint64_t>();
}

StoredTensor parse_tensor(const std::string& name, const json& entry, uint64_t data_bytes, const std::string& path) {
  require(entry.is_object() && entry.contains("dtype") && entry.contains("shape") && entry.contains("data_offsets") &&
              entry["dtype"].is_string() && entry["shape"].is_array() && entry["data_offsets"].is_array() &&
              entry["data_offsets"].size() == 2,
          "{}: tensor '{}' needs dtype (a string), shape (a list) and data_offsets (two numbers); its entry is {}.",
          path, name, entry.dump());
  StoredTensor t;
  t.name = name;
  t.dtype = entry["dtype"].get<std::string>();
  const TypeInfo* type = find_type(t.dtype);
  require(type != nullptr, "{}: tensor '{}' has the type {}, which is not known.", path, name, t.dtype);
  uint64_t bytes = type->bytes;
  for (const json& dim : entry["shape"]) {
    const uint64_t extent = unsigned_number(dim, path, name, "the shape");
    require(extent <= static_cast<uint64_t>(std::numeric_limits<int64_t>::max()) &&
                (extent == 0 || bytes <= std::numeric_limits<uint64_t>::max() / extent),
            "{}: tensor '{}' has a shape whose size does not fit 64 bits.", path, name);
    bytes *= extent;
    t.shape.push_back(static_cast<int64_t>(extent));
  }
  t.begin = unsigned_number(entry["data_offsets"][0], path, name, "data_offsets");
  t.end = unsigned_number(entry["data_offsets"][1], path, name, "data_offsets");
  require(t.begin <= t.end && t.end <= data_bytes,
          "{}: tensor '{}' lies at bytes {} to {}, but the file has {} bytes of data.", path, name, t.begin, t.end,
          data_bytes);
  require(t.bytes() == bytes, "{}: tensor '{}' has {} bytes, but its type and shape ask for {}.", path, name, t.bytes(),
          bytes);
  return t;
}

}  // namespace

int64_t StoredTensor::numel() const {
  int64_t n = 1;
  for (const int64_t d : shape) n *= d;
  return n;
}

std::optional<DType> StoredTensor::type() const {
  const TypeInfo* info = find_type(dtype);
  return info == nullptr ? std::nullopt : info->type;
}

SafetensorsFile::SafetensorsFile(const std::string& path) : path_(path) {
  std::ifstream in(path, std::ios::binary | std::ios::ate);
  require(static_cast<bool>(in), "{} cannot be read.", path);
  const auto size = static_cast<uint64_t>(in.tellg());
  require(size >= 8, "{}: {} bytes are too few for a safetensors file.", path, size);
  in.seekg(0);
  std::array<unsigned char, 8> prefix{};
  in.read(reinterpret_cast<char*>(prefix.data()), 8);
  uint64_t length = 0;
  for (int i = 7; i >= 0; --i) length = length << 8 | prefix[static_cast<std::size_t>(i)];
  require(length <= longest_header && length <= size - 8,
          "{}: the header should be {} bytes long, but the file has {} bytes.", path, length, size);
  std::string text(length, '\0');
  in.read(text.data(), static_cast<std::streamsize>(length));
  require(static_cast<bool>(in), "{}: the header cannot be read.", path);

  data_begin_ = 8 + length;
  const uint64_t data_bytes = size - data_begin_;
  const json header = parse_header(text, path);
  for (const auto& [name, entry] : header.items()) {
    if (name != "__metadata__") {
      tensors_.push_back(parse_tensor(name, entry, data_bytes, path));
      continue;
    }
    require(entry.is_object(), "{}: __metadata__ is not an object of strings.", path);
    for (const auto& [key, value] : entry.items()) {
      require(value.is_string(), "{}: __metadata__ '{}' is not a string.", path, key);
      metadata_[key] = value.get<std::string>();
    }
  }
  std::sort(tensors_.begin(), tensors_.end(), [](const StoredTensor& a, const StoredTensor& b) {
    return std::tie(a.begin, a.end) < std::tie(b.begin, b.end);
  });
  uint64_t expected = 0;
  for (std::size_t i = 0; i < tensors_.size(); ++i) {
    require(tensors_[i].begin == expected,
            "{}: tensor '{}' begins at byte {} of the data, but the one before it ends at {}.", path, tensors_[i].name,
            tensors_[i].begin, expected);
    expected = tensors_[i].end;
    index_[tensors_[i].name] = i;
  }
  require(expected == data_bytes, "{}: the tensors end at byte {} of the data, but the file has {}.", path, expected,
          data_bytes);
}

const StoredTensor* SafetensorsFile::find(std::string_view name) const {
  const auto it = index_.find(name);
  return it == index_.end() ? nullptr : &tensors_[it->second];
}

const StoredTensor& SafetensorsFile::tensor(std::string_view name) const {
  const StoredTensor* t = find(name);
  if (t != nullptr) return *t;
  const auto next = index_.lower_bound(name);
  fail("{} has no tensor '{}' among its {}{}.", path_, name, tensors_.size(),
       next == index_.end() ? std::string() : " (the next in the alphabet is '" + next->first + "')");
}

const std::string& SafetensorsFile::metadata(const std::string& key) const {
  const auto it = metadata_.find(key);
  require(it != metadata_.end(), "{}: __metadata__ has no '{}'.", path_, key);
  return it->second;
}

void SafetensorsFile::read_into(std::string_view name, void* memory) const {
  const StoredTensor& t = tensor(name);
  std::ifstream in(path_, std::ios::binary);
  in.seekg(static_cast<std::streamoff>(data_begin_ + t.begin));
  in.read(static_cast<char*>(memory), static_cast<std::streamsize>(t.bytes()));
  require(static_cast<bool>(in) || t.bytes() == 0, "{}: the data of tensor '{}' cannot be read.", path_, name);
}

std::vector<std::byte> SafetensorsFile::read(std::string_view name) const {
  std::vector<std::byte> bytes(tensor(name).bytes());
  read_into(name, bytes.data());
  return bytes;
}

namespace {

template <class From, class To, class Convert>
std::vector<To> converted(const std::vector<std::byte>& bytes, Convert convert) {
  std::vector<To> result(bytes.size() / sizeof(From));
  for (std::size_t i = 0; i < result.size(); ++i) {
    From value;
    std::memcpy(&value, bytes.data() + i * sizeof(From), sizeof(From));
    result[i] = convert(value);
  }
  return result;
}

}  // namespace

std::vector<float> SafetensorsFile::read_floats(std::string_view name) const {
  const std::string& dtype = tensor(name).dtype;
  if (dtype == "F32") return converted<float, float>(read(name), [](float v) { return v; });
  if (dtype == "BF16") return converted<uint16_t, float>(read(name), [](uint16_t v) { return to_float(bf16_t{v}); });
  if (dtype == "F16") return converted<uint16_t, float>(read(name), [](uint16_t v) { return F16::decode(v); });
  fail("{}: tensor '{}' is {}, where F32, BF16 or F16 was expected.", path_, name, dtype);
}

std::vector<int32_t> SafetensorsFile::read_integers(std::string_view name) const {
  const std::string& dtype = tensor(name).dtype;
  const auto widen = [](auto v) { return static_cast<int32_t>(v); };
  if (dtype == "I8") return converted<int8_t, int32_t>(read(name), widen);
  if (dtype == "U8") return converted<uint8_t, int32_t>(read(name), widen);
  if (dtype == "I16") return converted<int16_t, int32_t>(read(name), widen);
  if (dtype == "I32") return converted<int32_t, int32_t>(read(name), widen);
  if (dtype == "I64") {
    return converted<int64_t, int32_t>(read(name), [&](int64_t v) {
      require(v >= std::numeric_limits<int32_t>::min() && v <= std::numeric_limits<int32_t>::max(),
              "{}: tensor '{}' holds {}, which is no 32-bit number.", path_, name, v);
      return static_cast<int32_t>(v);
    });
  }
  fail("{}: tensor '{}' is {}, where I8, U8, I16, I32 or I64 was expected.", path_, name, dtype);
}

}  // namespace kvant::data
