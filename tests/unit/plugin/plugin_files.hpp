// The plugins of tests/plugins/, and copies of them in which bytes were changed.
#pragma once

#include "plugin/abi.hpp"
#include "support/temporary_folder.hpp"

#include <elf.h>
#include <catch2/catch_test_macros.hpp>
#include <cstring>
#include <filesystem>
#include <string>
#include <string_view>

namespace kvant::test {

inline std::filesystem::path plugin_file(const std::string& name) {
  return std::filesystem::path(KVANT_BUILD_DIR) / "tests/plugins" / name / ("libkvant_" + name + ".so");
}

/// What a callable throws, as text; the test fails if it throws nothing.
template <class Function>
std::string sentence(Function&& function) {
  try {
    function();
  } catch (const std::exception& error) {
    return error.what();
  }
  FAIL("nothing was thrown");
  return {};
}

/// The bytes of a plugin, with access to the record in its note.
class PluginBytes {
 public:
  explicit PluginBytes(const std::string& name) : bytes(TemporaryFolder::read(plugin_file(name))) {
    const std::string owner("KVANT\0\0\0", 8);
    const std::size_t at = bytes.find(owner);
    REQUIRE(at != std::string::npos);
    record_at = at + owner.size();
  }

  KvantPluginRecord record() const {
    KvantPluginRecord r;
    std::memcpy(&r, bytes.data() + record_at, sizeof(r));
    return r;
  }
  void set_record(const KvantPluginRecord& r) { std::memcpy(bytes.data() + record_at, &r, sizeof(r)); }
  /// Replaces "before" by "after" (of one length) inside the fingerprint.
  void change_fingerprint(std::string_view before, std::string_view after) {
    REQUIRE(before.size() == after.size());
    KvantPluginRecord r = record();
    char* const place = std::strstr(r.fingerprint, std::string(before).c_str());
    REQUIRE(place != nullptr);
    std::memcpy(place, after.data(), after.size());
    set_record(r);
  }
  template <class T>
  T get(std::size_t offset) const {
    T value;
    std::memcpy(&value, bytes.data() + offset, sizeof(T));
    return value;
  }
  template <class T>
  void put(std::size_t offset, T value) {
    std::memcpy(bytes.data() + offset, &value, sizeof(T));
  }
  /// File offset of the first program header of a type.
  std::size_t program_header(uint32_t type) const {
    const auto header = get<Elf64_Ehdr>(0);
    for (std::size_t i = 0; i < header.e_phnum; ++i)
      if (get<Elf64_Phdr>(header.e_phoff + i * sizeof(Elf64_Phdr)).p_type == type)
        return header.e_phoff + i * sizeof(Elf64_Phdr);
    FAIL("the plugin has no program header of type " << type);
    return 0;
  }

  std::string bytes;
  std::size_t record_at = 0;
};

}  // namespace kvant::test
