// A small reader of ELF shared objects: what the loader has to know of a file before the dynamic linker sees it. It
// reads through program headers only, except for the full symbol table, and believes no number of the file: every
// offset and size is checked against the file, and every list is bounded by it.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace kvant::plugin::detail {

struct ElfNote {
  std::string owner;
  uint32_t type = 0;
  std::vector<char> descriptor;
};

class ElfFile {
 public:
  /// Throws kvant::Error with the end of a sentence ("is not an ELF file", "ends inside its program headers") where the
  /// file cannot be read, is no 64-bit little-endian shared object for this processor, or contradicts itself.
  explicit ElfFile(const std::filesystem::path& file);

  const std::vector<ElfNote>& notes() const { return notes_; }
  /// DT_NEEDED: sonames of the libraries that it asks for.
  const std::vector<std::string>& needed() const { return needed_; }

  /// Whether a symbol of this (mangled) name is defined here, in the dynamic table.
  bool exports(std::string_view symbol) const;
  /// The same, hidden and local symbols included where the file was not stripped.
  bool defines(std::string_view symbol) const;

 private:
  struct Segment;
  struct Symbols {
    std::vector<char> entries;  ///< Elf64_Sym
    std::vector<char> names;
    bool defines(std::string_view symbol) const;
  };

  std::vector<char> read(uint64_t offset, uint64_t size, const char* what) const;
  template <class T>
  T read_as(uint64_t offset, const char* what) const;
  void read_notes(const Segment& segment);
  void read_dynamic(const std::vector<Segment>& segments, const Segment& dynamic);
  uint64_t count_symbols(const std::vector<Segment>& segments, uint64_t hash, uint64_t gnu_hash) const;
  void read_symbol_table(uint64_t section_offset, uint32_t entry_size, uint32_t count);

  std::filesystem::path file_;
  int descriptor_ = -1;
  uint64_t size_ = 0;
  std::vector<ElfNote> notes_;
  std::vector<std::string> needed_;
  Symbols dynamic_, full_;
};

}  // namespace kvant::plugin::detail
