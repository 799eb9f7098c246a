// A recorded file, and copies of it that describe themselves wrongly or hold another bit.
#pragma once

#include "data/safetensors.hpp"
#include "quant/verify.hpp"
#include "support/temporary_folder.hpp"

#include <catch2/catch_test_macros.hpp>
#include <nlohmann/json.hpp>

#include <cstring>
#include <fstream>
#include <functional>
#include <iterator>
#include <string>

namespace kvant::test {

inline std::string recorded_path(const std::string& name) { return std::string(KVANT_SOURCE_DIR) + "/tests/reference/data/" + name; }

inline std::string bytes_of(const std::string& path) {
  std::ifstream in(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(in), {}};
}

/// Tensors beyond their limit; each is in the information of the next check that fails.
inline std::vector<std::string> beyond(const quant::VerifiedFile& v) {
  std::vector<std::string> names;
  for (const quant::VerifiedTensor& t : v.tensors)
    if (!(t.error <= t.limit)) {
      names.push_back(t.tensor);
      UNSCOPED_INFO(t.tensor << ": " << t.measure << " " << t.error << ", limit " << t.limit);
    }
  return names;
}

class RecordedFile {
 public:
  using json = nlohmann::json;

  explicit RecordedFile(const std::string& name) : file_(recorded_path(name)), bytes_(bytes_of(recorded_path(name))) {
    uint64_t length = 0;
    std::memcpy(&length, bytes_.data(), sizeof length);
    header_ = json::parse(bytes_.substr(8, length));
    begin_ = 8 + length;
  }

  const data::SafetensorsFile& file() const { return file_; }

  /// A copy in which bits of one byte of a tensor are flipped.
  std::string flipped(const std::string& tensor, std::size_t byte, unsigned bits) const {
    std::string changed = bytes_;
    char& c = changed.at(begin_ + file_.tensor(tensor).begin + byte);
    c = static_cast<char>(static_cast<unsigned char>(c) ^ bits);
    return folder_.write("wrong.safetensors", changed);
  }

  /// A copy with another header. `change` gets the header and, parsed, the description of one case.
  std::string described(const std::string& name, const std::function<void(json& header, json& entry)>& change) const {
    json header = header_;
    const std::string key = "case/" + name;
    json entry = json::parse(header["__metadata__"][key].get<std::string>());
    const json before = entry;
    change(header, entry);
    if (entry != before) header["__metadata__"][key] = entry.dump();
    std::string text = header.dump();
    text.resize((text.size() + 7) / 8 * 8, ' ');
    const uint64_t size = text.size();
    return folder_.write("wrong.safetensors", std::string(reinterpret_cast<const char*>(&size), sizeof size) + text + bytes_.substr(begin_));
  }

 private:
  data::SafetensorsFile file_;
  std::string bytes_;
  json header_;
  uint64_t begin_ = 0;
  TemporaryFolder folder_;
};

}  // namespace kvant::test
