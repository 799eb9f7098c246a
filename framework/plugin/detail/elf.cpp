#include "plugin/detail/elf.hpp"

#include "base/error.hpp"

#include <elf.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>
#include <algorithm>
#include <cerrno>
#include <cstring>
#include <memory>

namespace kvant::plugin::detail {
namespace {

#if defined(__x86_64__)
constexpr uint16_t own_machine = EM_X86_64;
#elif defined(__aarch64__)
constexpr uint16_t own_machine = EM_AARCH64;
#elif defined(__powerpc64__)
constexpr uint16_t own_machine = EM_PPC64;
#else
#error "Name the ELF machine of this processor."
#endif

template <class T>
T load(const std::vector<char>& bytes, std::size_t offset) {
  T value;
  std::memcpy(&value, bytes.data() + offset, sizeof(T));
  return value;
}

/// The text that starts at an offset of a string table, up to its zero byte.
std::string_view text_at(const std::vector<char>& table, uint64_t offset) {
  if (offset >= table.size()) return {};
  const char* begin = table.data() + offset;
  return {begin, strnlen(begin, table.size() - offset)};
}

// No real library comes near these; a file that claims more would only cost time and memory.
constexpr uint64_t most_program_headers = 256, most_note_bytes = 1 << 16;

uint64_t padded(uint64_t size) { return (size + 3) & ~uint64_t{3}; }

}  // namespace

struct ElfFile::Segment {
  uint32_t type;
  uint64_t offset, address, size;

  /// File offset of an address and how many bytes of the segment follow it; nothing when it lies elsewhere.
  std::optional<std::pair<uint64_t, uint64_t>> find(uint64_t wanted) const {
    if (type != PT_LOAD || wanted < address || wanted - address >= size) return std::nullopt;
    return std::pair{offset + (wanted - address), size - (wanted - address)};
  }
};

std::vector<char> ElfFile::read(uint64_t offset, uint64_t size, const char* what) const {
  if (offset > size_ || size > size_ - offset) fail("ends inside its {} (it has {} bytes)", what, size_);
  std::vector<char> bytes(size);
  uint64_t done = 0;
  while (done < size) {
    const ssize_t got = pread(descriptor_, bytes.data() + done, size - done, static_cast<off_t>(offset + done));
    if (got < 0 && errno == EINTR) continue;
    if (got <= 0) fail("cannot be read ({})", got < 0 ? std::strerror(errno) : "it became shorter");
    done += static_cast<uint64_t>(got);
  }
  return bytes;
}

template <class T>
T ElfFile::read_as(uint64_t offset, const char* what) const {
  return load<T>(read(offset, sizeof(T), what), 0);
}

ElfFile::ElfFile(const std::filesystem::path& file) : file_(file) {
  descriptor_ = open(file.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK);
  if (descriptor_ < 0) fail("cannot be opened ({})", std::strerror(errno));
  const std::unique_ptr<int, void (*)(int*)> closer(&descriptor_, [](int* descriptor) { close(*descriptor); });
  struct stat status{};
  if (fstat(descriptor_, &status) != 0 || !S_ISREG(status.st_mode)) fail("is not a regular file");
  size_ = static_cast<uint64_t>(status.st_size);

  if (size_ < SELFMAG || std::memcmp(read(0, SELFMAG, "first bytes").data(), ELFMAG, SELFMAG) != 0)
    fail("is not an ELF file");
  const auto header = read_as<Elf64_Ehdr>(0, "ELF header");
  if (header.e_ident[EI_CLASS] != ELFCLASS64 || header.e_ident[EI_DATA] != ELFDATA2LSB)
    fail("is not a 64-bit little-endian library");
  if (header.e_machine != own_machine)
    fail("was built for another processor (ELF machine {}; this program is {})", header.e_machine, own_machine);
  if (header.e_type != ET_DYN) fail("is not a shared library (ELF type {})", header.e_type);
  if (header.e_phentsize != sizeof(Elf64_Phdr))
    fail("has program headers of {} bytes (they have {})", header.e_phentsize, sizeof(Elf64_Phdr));

  if (header.e_phnum > most_program_headers)
    fail("has {} program headers (at most {} are read)", header.e_phnum, most_program_headers);
  const std::vector<char> headers =
      read(header.e_phoff, uint64_t{header.e_phnum} * sizeof(Elf64_Phdr), "program headers");
  std::vector<Segment> segments;
  for (std::size_t at = 0; at < headers.size(); at += sizeof(Elf64_Phdr)) {
    const auto h = load<Elf64_Phdr>(headers, at);
    segments.push_back({h.p_type, h.p_offset, h.p_vaddr, h.p_filesz});
  }
  const Segment* dynamic = nullptr;
  for (const Segment& segment : segments) {
    if (segment.type == PT_NOTE) read_notes(segment);
    if (segment.type == PT_DYNAMIC) dynamic = &segment;
  }
  if (dynamic == nullptr) fail("is not a shared library (it has no dynamic section)");
  read_dynamic(segments, *dynamic);
  if (header.e_shentsize == sizeof(Elf64_Shdr)) read_symbol_table(header.e_shoff, header.e_shentsize, header.e_shnum);
}

// Notes are padded to 4 bytes. A segment of another padding (x86 has one of 8 for its property note) is read the same
// way: its one note comes first, and what follows is no note of ours.
void ElfFile::read_notes(const Segment& segment) {
  if (segment.size > most_note_bytes)
    fail("has {} bytes of notes (at most {} are read)", segment.size, most_note_bytes);
  const std::vector<char> bytes = read(segment.offset, segment.size, "notes");
  uint64_t at = 0;
  while (bytes.size() - at >= sizeof(Elf64_Nhdr)) {
    const auto header = load<Elf64_Nhdr>(bytes, at);
    at += sizeof(Elf64_Nhdr);
    const uint64_t owner = padded(header.n_namesz), descriptor = padded(header.n_descsz);
    if (owner > bytes.size() - at || header.n_descsz > bytes.size() - at - owner) return;
    ElfNote note;
    note.owner = std::string(bytes.data() + at, strnlen(bytes.data() + at, header.n_namesz));
    note.type = header.n_type;
    note.descriptor.assign(bytes.data() + at + owner, bytes.data() + at + owner + header.n_descsz);
    notes_.push_back(std::move(note));
    if (descriptor > bytes.size() - at - owner) return;
    at += owner + descriptor;
  }
}

void ElfFile::read_dynamic(const std::vector<Segment>& segments, const Segment& dynamic) {
  const std::vector<char> bytes = read(dynamic.offset, dynamic.size, "dynamic section");
  uint64_t names = 0, names_size = 0, symbols = 0, hash = 0, gnu_hash = 0;
  std::vector<uint64_t> needed;
  for (std::size_t at = 0; at + sizeof(Elf64_Dyn) <= bytes.size(); at += sizeof(Elf64_Dyn)) {
    const auto entry = load<Elf64_Dyn>(bytes, at);
    if (entry.d_tag == DT_NULL) break;
    switch (entry.d_tag) {
      case DT_STRTAB:
        names = entry.d_un.d_ptr;
        break;
      case DT_STRSZ:
        names_size = entry.d_un.d_val;
        break;
      case DT_SYMTAB:
        symbols = entry.d_un.d_ptr;
        break;
      case DT_HASH:
        hash = entry.d_un.d_ptr;
        break;
      case DT_GNU_HASH:
        gnu_hash = entry.d_un.d_ptr;
        break;
      case DT_NEEDED:
        needed.push_back(entry.d_un.d_val);
        break;
      default:
        break;
    }
  }
  const auto offset_of = [&](uint64_t address, const char* what) {
    for (const Segment& segment : segments)
      if (const auto place = segment.find(address)) return place->first;
    fail("says that its {} are at address {:#x}, which none of its segments holds", what, address);
  };
  dynamic_.names = read(offset_of(names, "names"), names_size, "names");
  const uint64_t count = count_symbols(segments, hash, gnu_hash);
  if (count > size_ / sizeof(Elf64_Sym)) fail("claims {} symbols, more than its {} bytes can hold", count, size_);
  dynamic_.entries = read(offset_of(symbols, "symbols"), count * sizeof(Elf64_Sym), "symbols");
  for (const uint64_t offset : needed) needed_.emplace_back(text_at(dynamic_.names, offset));
}

// The dynamic symbol table has no length of its own: the hash tables know. DT_HASH says the number; DT_GNU_HASH gives,
// for every bucket, the first symbol of a chain whose last one has bit 0 of its hash set.
uint64_t ElfFile::count_symbols(const std::vector<Segment>& segments, uint64_t hash, uint64_t gnu_hash) const {
  const auto table = [&](uint64_t address) {
    for (const Segment& segment : segments)
      if (const auto place = segment.find(address)) return read(place->first, place->second, "hash table");
    fail("says that its hash table is at address {:#x}, which none of its segments holds", address);
  };
  const auto word = [](const std::vector<char>& bytes, uint64_t index) {
    if (index >= bytes.size() / 4) fail("ends inside its hash table");
    return load<uint32_t>(bytes, index * 4);
  };
  if (hash != 0) return word(table(hash), 1);
  if (gnu_hash == 0) fail("has no hash table of its symbols");
  const std::vector<char> bytes = table(gnu_hash);
  const uint64_t buckets = word(bytes, 0), first = word(bytes, 1), bloom_words = word(bytes, 2);
  const uint64_t chains_at = 4 + 2 * bloom_words + buckets;
  uint64_t last = 0;
  for (uint64_t b = 0; b < buckets; ++b) last = std::max<uint64_t>(last, word(bytes, 4 + 2 * bloom_words + b));
  if (last < first) return first;  // nothing is exported: the table holds what the library asks for
  while ((word(bytes, chains_at + last - first) & 1u) == 0) ++last;
  return last + 1;
}

// The full table (.symtab) is found through section headers, which a stripped file may lack; then there is nothing to
// read.
void ElfFile::read_symbol_table(uint64_t section_offset, uint32_t entry_size, uint32_t count) {
  const std::vector<char> headers = read(section_offset, uint64_t{count} * entry_size, "section headers");
  for (uint32_t i = 0; i < count; ++i) {
    const auto section = load<Elf64_Shdr>(headers, uint64_t{i} * entry_size);
    if (section.sh_type != SHT_SYMTAB) continue;
    if (section.sh_link >= count) fail("names section {} of {} as the names of its symbols", section.sh_link, count);
    const auto names = load<Elf64_Shdr>(headers, uint64_t{section.sh_link} * entry_size);
    full_.entries = read(section.sh_offset, section.sh_size, "symbol table");
    full_.names = read(names.sh_offset, names.sh_size, "symbol names");
  }
}

bool ElfFile::Symbols::defines(std::string_view symbol) const {
  for (std::size_t at = 0; at + sizeof(Elf64_Sym) <= entries.size(); at += sizeof(Elf64_Sym)) {
    const auto entry = load<Elf64_Sym>(entries, at);
    if (entry.st_shndx != SHN_UNDEF && text_at(names, entry.st_name) == symbol) return true;
  }
  return false;
}

bool ElfFile::exports(std::string_view symbol) const { return dynamic_.defines(symbol); }
bool ElfFile::defines(std::string_view symbol) const { return dynamic_.defines(symbol) || full_.defines(symbol); }

}  // namespace kvant::plugin::detail
