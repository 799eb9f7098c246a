#include "plugin/detail/elf.hpp"

#include "base/error.hpp"
#include "plugin_files.hpp"

#include <sys/stat.h>
#include <algorithm>
#include <catch2/matchers/catch_matchers_string.hpp>
#include <random>

using namespace kvant;
using Catch::Matchers::ContainsSubstring;
using kvant::plugin::detail::ElfFile;
using kvant::test::plugin_file;
using kvant::test::PluginBytes;
using kvant::test::sentence;
using kvant::test::TemporaryFolder;

namespace {

std::string refusal(const std::string& bytes) {
  const TemporaryFolder folder;
  const std::string file = folder.write("libkvant_x.so", bytes);
  return sentence([&] { ElfFile elf(file); });
}

}  // namespace

TEST_CASE("the reader finds notes, needed libraries and symbols of a plugin") {
  const ElfFile elf(plugin_file("good"));
  const auto ours = std::ranges::find_if(elf.notes(), [](const auto& note) { return note.owner == "KVANT"; });
  REQUIRE(ours != elf.notes().end());
  CHECK(ours->type == KVANT_PLUGIN_NOTE_TYPE);
  CHECK(ours->descriptor.size() == sizeof(KvantPluginRecord));
  CHECK(std::ranges::any_of(elf.needed(), [](const std::string& soname) { return soname.starts_with("libkvant.so"); }));
  CHECK(elf.exports("kvant_plugin_query"));
  CHECK_FALSE(elf.exports("kvant_plugin_quer"));
  CHECK_FALSE(elf.exports("setenv"));  // used, not defined
  CHECK_FALSE(elf.exports(""));
}

TEST_CASE("a hidden symbol is defined but not exported") {
  const ElfFile elf(plugin_file("own_kokkos_hidden"));
  CHECK(elf.defines("_ZN6Kokkos8finalizeEv"));
  CHECK_FALSE(elf.exports("_ZN6Kokkos8finalizeEv"));
}

TEST_CASE("a file that is no library is refused with the reason") {
  const TemporaryFolder folder;
  CHECK_THAT(sentence([&] { ElfFile elf(folder / "nothing.so"); }), ContainsSubstring("No such file or directory"));
  CHECK_THAT(sentence([&] { ElfFile elf(folder.path()); }), ContainsSubstring("not a regular file"));
  REQUIRE(mkfifo((folder / "pipe.so").c_str(), 0600) == 0);
  CHECK_THAT(sentence([&] { ElfFile elf(folder / "pipe.so"); }), ContainsSubstring("not a regular file"));
  CHECK_THAT(refusal(""), ContainsSubstring("not an ELF file"));
  CHECK_THAT(refusal("#!/bin/sh\nexit 0\n"), ContainsSubstring("not an ELF file"));
  CHECK_THAT(refusal("\177ELF"), ContainsSubstring("ends inside its ELF header"));
}

TEST_CASE("a library of another machine or kind is refused") {
  const auto changed = [](std::size_t offset, auto value) {
    PluginBytes plugin("good");
    plugin.put(offset, value);
    return refusal(plugin.bytes);
  };
  CHECK_THAT(changed(EI_CLASS, char{ELFCLASS32}), ContainsSubstring("not a 64-bit little-endian library"));
  CHECK_THAT(changed(EI_DATA, char{ELFDATA2MSB}), ContainsSubstring("not a 64-bit little-endian library"));
  CHECK_THAT(changed(offsetof(Elf64_Ehdr, e_machine), uint16_t{EM_S390}),
             ContainsSubstring("another processor (ELF machine 22"));
  CHECK_THAT(changed(offsetof(Elf64_Ehdr, e_type), uint16_t{ET_REL}),
             ContainsSubstring("not a shared library (ELF type 1)"));
  CHECK_THAT(changed(offsetof(Elf64_Ehdr, e_phentsize), uint16_t{32}),
             ContainsSubstring("program headers of 32 bytes"));
  CHECK_THAT(changed(offsetof(Elf64_Ehdr, e_phnum), uint16_t{0}), ContainsSubstring("no dynamic section"));
  CHECK_THAT(changed(offsetof(Elf64_Ehdr, e_phnum), uint16_t{0xffff}), ContainsSubstring("65535 program headers"));
  CHECK_THAT(changed(offsetof(Elf64_Ehdr, e_phoff), ~uint64_t{0}),
             ContainsSubstring("ends inside its program headers"));
  CHECK_THAT(changed(offsetof(Elf64_Ehdr, e_shoff), uint64_t{1} << 62),
             ContainsSubstring("ends inside its section headers"));
}

TEST_CASE("sizes that the file cannot hold are refused") {
  const auto changed = [](uint32_t type, std::size_t field, uint64_t value) {
    PluginBytes plugin("good");
    plugin.put(plugin.program_header(type) + field, value);
    return refusal(plugin.bytes);
  };
  CHECK_THAT(changed(PT_NOTE, offsetof(Elf64_Phdr, p_filesz), ~uint64_t{0}), ContainsSubstring("bytes of notes"));
  CHECK_THAT(changed(PT_NOTE, offsetof(Elf64_Phdr, p_offset), ~uint64_t{0} - 8),
             ContainsSubstring("ends inside its notes"));
  CHECK_THAT(changed(PT_DYNAMIC, offsetof(Elf64_Phdr, p_filesz), ~uint64_t{0}),
             ContainsSubstring("ends inside its dynamic section"));
  CHECK_THAT(changed(PT_DYNAMIC, offsetof(Elf64_Phdr, p_filesz), 0),
             ContainsSubstring("has no hash table of its symbols"));
}

TEST_CASE("every truncation of a plugin is refused, and none is read past its end") {
  const PluginBytes plugin("good");
  const TemporaryFolder folder;
  for (std::size_t size = 0; size < plugin.bytes.size(); size += 1 + size / 16) {
    const std::string file =
        folder.write("libkvant_" + std::to_string(size) + ".so", std::string_view(plugin.bytes).substr(0, size));
    INFO("truncated to " << size << " of " << plugin.bytes.size() << " bytes");
    CHECK_THROWS_AS(ElfFile(file), Error);
  }
}

// The test is that nothing but kvant::Error comes out (and, in the sanitizer build, that no byte outside is touched).
TEST_CASE("mutated headers are read or refused, never believed") {
  const PluginBytes good("good");
  const auto header = good.get<Elf64_Ehdr>(0);
  const auto dynamic = good.get<Elf64_Phdr>(good.program_header(PT_DYNAMIC));
  const auto notes = good.get<Elf64_Phdr>(good.program_header(PT_NOTE));
  struct Region {
    std::size_t begin, size;
  };
  const Region regions[] = {{0, sizeof(Elf64_Ehdr)},
                            {header.e_phoff, header.e_phnum * sizeof(Elf64_Phdr)},
                            {dynamic.p_offset, dynamic.p_filesz},
                            {notes.p_offset, notes.p_filesz},
                            {header.e_shoff, std::size_t{header.e_shnum} * header.e_shentsize},
                            {notes.p_offset + notes.p_filesz, 4096}};  // hash table and symbols follow the notes
  constexpr uint64_t extremes[] = {
      0, 1, 0x7f, 0x80, 0xff, 0xffff, 0x7fffffff, 0x80000000, 0xffffffff, 0x7fffffffffffffff, ~uint64_t{0}};
  std::mt19937_64 random(20260807);
  const TemporaryFolder folder;
  int read = 0, refused = 0;
  for (int round = 0; round < 4000; ++round) {
    std::string bytes = good.bytes;
    const int changes = 1 + static_cast<int>(random() % 4);
    for (int c = 0; c < changes; ++c) {
      const Region& region = regions[random() % std::size(regions)];
      const std::size_t width = std::size_t{1} << random() % 4, at = region.begin + random() % region.size;
      const uint64_t value = random() % 2 == 0 ? random() : extremes[random() % std::size(extremes)];
      if (at + width <= bytes.size()) std::memcpy(bytes.data() + at, &value, width);
    }
    if (random() % 8 == 0) bytes.resize(random() % bytes.size());
    const std::string file =
        folder.write("libkvant_" + std::to_string(round) + ".so", bytes);  // a new file: rewriting one syncs
    try {
      const ElfFile elf(file);
      elf.defines("_ZN6Kokkos8finalizeEv");
      ++read;
    } catch (const Error&) {
      ++refused;
    }
    std::filesystem::remove(file);
  }
  CHECK(read > 100);
  CHECK(refused > 100);
}
