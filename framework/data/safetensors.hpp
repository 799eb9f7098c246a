// Safetensors files, read with suspicion: the header's length, its JSON, every type, shape and offset are checked
// before a byte of data is touched. Layout (github.com/huggingface/safetensors): 8 bytes little-endian length of the
// header, the header (a JSON object: name → {dtype, shape, data_offsets}, and "__metadata__": strings), then the data
// without holes.
#pragma once

#include "tensor/dtype.hpp"

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace kvant::data {

struct StoredTensor {
  std::string name;
  std::string dtype;            ///< as stored: "F32", "BF16", "I64", "F8_E4M3" …
  std::vector<int64_t> shape;   ///< empty: a scalar
  uint64_t begin = 0, end = 0;  ///< bytes from the start of the data

  uint64_t bytes() const { return end - begin; }
  int64_t numel() const;
  /// Kvant's type, if it has this one.
  std::optional<DType> type() const;
};

class SafetensorsFile {
 public:
  /// Reads and checks the header. Throws kvant::Error with the file's name and what is wrong with it.
  explicit SafetensorsFile(const std::string& path);

  const std::string& path() const { return path_; }
  /// In the order of the data.
  const std::vector<StoredTensor>& tensors() const { return tensors_; }
  bool has(std::string_view name) const { return find(name) != nullptr; }
  const StoredTensor* find(std::string_view name) const;
  /// Throws when there is none, naming how many there are and one like it.
  const StoredTensor& tensor(std::string_view name) const;

  const std::map<std::string, std::string>& metadata() const { return metadata_; }
  /// Throws when the file does not have the key.
  const std::string& metadata(const std::string& key) const;

  /// The bytes as stored.
  std::vector<std::byte> read(std::string_view name) const;
  /// Into memory of exactly tensor(name).bytes() bytes.
  void read_into(std::string_view name, void* memory) const;
  /// F32, and BF16, F16 widened exactly. Throws for other types.
  std::vector<float> read_floats(std::string_view name) const;
  /// I8, U8, I16, I32, and I64 whose values fit. Throws for other types.
  std::vector<int32_t> read_integers(std::string_view name) const;

 private:
  std::string path_;
  uint64_t data_begin_ = 0;
  std::vector<StoredTensor> tensors_;
  std::map<std::string, std::size_t, std::less<>> index_;
  std::map<std::string, std::string> metadata_;
};

}  // namespace kvant::data
