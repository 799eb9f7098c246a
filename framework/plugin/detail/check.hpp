// What is checked of a plugin's file before the dynamic linker sees it. Each failure is a kvant::Error with the end of
// a sentence that begins with the plugin's name and file: what was found, what is needed and what to do.
#pragma once

#include "plugin/abi.hpp"
#include "plugin/detail/elf.hpp"
#include "plugin/loader.hpp"

#include <string>
#include <string_view>
#include <vector>

namespace kvant::plugin::detail {

/// This process, as a plugin has to fit it.
struct HostFacts {
  std::string fingerprint;
  std::vector<std::string> libraries;  ///< sonames of libkokkoscore, libkvant and MPI as they are loaded
};
const HostFacts& own_facts();

/// The record of the file. Fills the texts of info as far as they can be read, name and version even of another ABI.
KvantPluginRecord read_record(const ElfFile& elf, Info& info);

/// In which fields two fingerprints differ: "kokkos 5.1.0 instead of 5.2.2"; empty when they are equal.
std::vector<std::string> differences(std::string_view plugin, std::string_view host);

/// Fingerprint, a Kokkos of its own, another MPI or Kokkos library, missing entries.
void check_fit(const ElfFile& elf, const Info& info, const HostFacts& host);

}  // namespace kvant::plugin::detail
