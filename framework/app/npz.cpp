#include "app/npz.hpp"

#include "base/error.hpp"

#include <cstring>
#include <fstream>
#include <iterator>
#include <regex>

namespace kvant::app {
namespace {

/// Reads from the archive with every access checked.
class Bytes {
 public:
  Bytes(const std::string& file, std::vector<char> data) : file_(file), data_(std::move(data)) {}
  std::size_t size() const { return data_.size(); }
  const char* at(std::size_t offset, std::size_t count) const {
    if (offset > data_.size() || count > data_.size() - offset) refuse("{} is not a whole .npz archive: byte {} lies past its end.", file_, offset + count);
    return data_.data() + offset;
  }
  template <class T>
  T read(std::size_t offset) const {
    T value;
    std::memcpy(&value, at(offset, sizeof(T)), sizeof(T));
    return value;
  }
  const std::string& file() const { return file_; }

 private:
  std::string file_;
  std::vector<char> data_;
};

constexpr uint32_t end_of_directory = 0x06054b50, directory_entry = 0x02014b50, member_header = 0x04034b50;

NpzArray parse_npy(const Bytes& zip, const std::string& name, std::size_t begin, std::size_t size) {
  if (size < 10 || std::memcmp(zip.at(begin, 6), "\x93NUMPY", 6) != 0) refuse("{}: the member {} is not a NumPy array.", zip.file(), name);
  const bool long_header = zip.read<uint8_t>(begin + 6) >= 2;
  const std::size_t header_at = begin + (long_header ? 12 : 10);
  const std::size_t header_size = long_header ? zip.read<uint32_t>(begin + 8) : zip.read<uint16_t>(begin + 8);
  const std::string header(zip.at(header_at, header_size), header_size);
  if (header.find("'descr': '<f4'") == std::string::npos || header.find("'fortran_order': False") == std::string::npos)
    refuse("{}: the array {} must be little-endian float32 in C order; its header says {}.", zip.file(), name, header);
  NpzArray array;
  std::smatch found;
  if (!std::regex_search(header, found, std::regex("'shape': \\(([0-9, ]*)\\)"))) refuse("{}: the array {} has no shape.", zip.file(), name);
  const std::string dims = found[1];
  const std::regex number("[0-9]+");
  std::size_t count = 1;
  for (auto it = std::sregex_iterator(dims.begin(), dims.end(), number); it != std::sregex_iterator(); ++it) {
    array.shape.push_back(std::stoll(it->str()));
    count *= static_cast<std::size_t>(array.shape.back());
  }
  const std::size_t data_at = header_at + header_size;
  if (data_at + count * 4 > begin + size) refuse("{}: the array {} is shorter than its shape says.", zip.file(), name);
  array.values.resize(count);
  std::memcpy(array.values.data(), zip.at(data_at, count * 4), count * 4);
  return array;
}

}  // namespace

std::map<std::string, NpzArray> read_npz(const std::string& file) {
  std::ifstream in(file, std::ios::binary);
  if (!in) refuse("The parameter file {} cannot be read.", file);
  const Bytes zip(file, std::vector<char>(std::istreambuf_iterator<char>(in), {}));
  std::size_t end = zip.size() < 22 ? 0 : zip.size() - 22;
  while (end > 0 && zip.read<uint32_t>(end) != end_of_directory) --end;
  if (zip.size() < 22 || zip.read<uint32_t>(end) != end_of_directory) refuse("{} is not an .npz archive.", file);

  std::map<std::string, NpzArray> arrays;
  const int members = zip.read<uint16_t>(end + 10);
  std::size_t entry = zip.read<uint32_t>(end + 16);
  for (int i = 0; i < members; ++i) {
    if (zip.read<uint32_t>(entry) != directory_entry) refuse("{} is not a whole .npz archive: entry {} of its directory is damaged.", file, i);
    const uint16_t method = zip.read<uint16_t>(entry + 10), name_size = zip.read<uint16_t>(entry + 28);
    const std::size_t size = zip.read<uint32_t>(entry + 24), local = zip.read<uint32_t>(entry + 42);
    std::string name(zip.at(entry + 46, name_size), name_size);
    if (method != 0) refuse("{}: the member {} is compressed; numpy.savez writes what is read here.", file, name);
    if (zip.read<uint32_t>(local) != member_header) refuse("{}: the member {} is damaged.", file, name);
    const std::size_t begin = local + 30 + zip.read<uint16_t>(local + 26) + zip.read<uint16_t>(local + 28);
    const std::string suffix = ".npy";
    if (name.ends_with(suffix)) name.resize(name.size() - suffix.size());
    arrays[name] = parse_npy(zip, name, begin, size);
    entry += 46u + name_size + zip.read<uint16_t>(entry + 30) + zip.read<uint16_t>(entry + 32);
  }
  return arrays;
}

}  // namespace kvant::app
