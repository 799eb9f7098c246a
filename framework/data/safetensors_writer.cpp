#include "data/safetensors_writer.hpp"

#include "base/error.hpp"

#include <nlohmann/json.hpp>

#include <cerrno>
#include <cstring>
#include <filesystem>
#include <fstream>

namespace kvant::data {
namespace {

const char* stored_name(DType type) {
  switch (type) {
    case DType::f32: return "F32";
    case DType::bf16: return "BF16";
    case DType::f16: return "F16";
    case DType::i8: return "I8";
    case DType::u8: return "U8";
    case DType::i32: return "I32";
    case DType::e4m3fn: return "F8_E4M3";
    case DType::e5m2: return "F8_E5M2";
    case DType::i16: return "I16";
    case DType::u16: return "U16";
    case DType::e8m0: return "F8_E8M0";
    default: break;  // the format has no name for the others, and bytes under a wrong name would be read wrongly
  }
  fail("Safetensors has no name for {}, so a tensor of it is not stored.", name_of(type));
}

uint64_t bytes_of(const TensorToWrite& t) {
  uint64_t n = size_of(t.dtype);
  for (const int64_t d : t.shape) n *= static_cast<uint64_t>(d);
  return n;
}

}  // namespace

void write_safetensors(const std::string& path, const std::map<std::string, std::string>& metadata, const std::vector<TensorToWrite>& tensors) {
  nlohmann::json header = nlohmann::json::object();
  if (!metadata.empty()) header["__metadata__"] = metadata;
  uint64_t at = 0;
  for (const TensorToWrite& t : tensors) {
    require(!header.contains(t.name), "Two tensors named {} were to be stored in {}.", t.name, path);
    header[t.name] = {{"dtype", stored_name(t.dtype)}, {"shape", t.shape}, {"data_offsets", {at, at + bytes_of(t)}}};
    at += bytes_of(t);
  }
  std::string text = header.dump();
  text.resize((text.size() + 7) / 8 * 8, ' ');

  // The rename below would replace a device by a file.
  std::error_code unknown;
  const auto there = std::filesystem::status(path, unknown).type();
  require(there == std::filesystem::file_type::regular || there == std::filesystem::file_type::not_found || there == std::filesystem::file_type::none,
          "{} could not be written: it exists and is no regular file.", path);

  const std::string aside = path + ".part";
  const auto failed = [&]() {
    const std::string reason = std::strerror(errno);
    std::error_code ignored;
    std::filesystem::remove(aside, ignored);
    fail("{} could not be written: {}.", path, reason);
  };
  std::ofstream out(aside, std::ios::binary | std::ios::trunc);
  if (!out) failed();
  const uint64_t size = text.size();
  char little[8];
  for (int i = 0; i < 8; ++i) little[i] = static_cast<char>(size >> (8 * i));
  out.write(little, 8).write(text.data(), static_cast<std::streamsize>(text.size()));
  std::vector<char> bytes;
  for (const TensorToWrite& t : tensors) {
    bytes.clear();
    t.fill(bytes);
    require(bytes.size() == bytes_of(t), "{}: {} gave {} bytes, its shape needs {}.", path, t.name, bytes.size(), bytes_of(t));
    if (!out.write(bytes.data(), static_cast<std::streamsize>(bytes.size()))) failed();
  }
  out.close();
  if (!out) failed();
  std::error_code error;
  std::filesystem::rename(aside, path, error);
  if (error) failed();
}

}  // namespace kvant::data
