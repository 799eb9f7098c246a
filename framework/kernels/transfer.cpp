#include "kernels/transfer.hpp"

#include "base/kokkos.hpp"

#include <cstring>

namespace kvant {
namespace {
using HostBytes = Kokkos::View<const char*, Kokkos::HostSpace, Kokkos::MemoryTraits<Kokkos::Unmanaged>>;
using MutableHostBytes = Kokkos::View<char*, Kokkos::HostSpace, Kokkos::MemoryTraits<Kokkos::Unmanaged>>;
using DeviceBytes = Kokkos::View<char*, MemSpace, Kokkos::MemoryTraits<Kokkos::Unmanaged>>;
}  // namespace

void upload(const Exec& exec, const void* host, const TensorView& x) {
  require(x.contiguous(), "Only a contiguous tensor can be uploaded.");
  if constexpr (exec_is_host) {
    exec.space.fence("kvant: before an upload");
    std::memcpy(x.data, host, x.bytes());
  } else {
    Kokkos::deep_copy(exec.space, DeviceBytes(static_cast<char*>(x.data), x.bytes()), HostBytes(static_cast<const char*>(host), x.bytes()));
    exec.space.fence("kvant: after an upload");
  }
}

void download(const Exec& exec, const TensorView& x, void* host) {
  require(x.contiguous(), "Only a contiguous tensor can be downloaded.");
  exec.space.fence("kvant: before a download");
  if constexpr (exec_is_host) {
    std::memcpy(host, x.data, x.bytes());
  } else {
    Kokkos::deep_copy(exec.space, MutableHostBytes(static_cast<char*>(host), x.bytes()), DeviceBytes(static_cast<char*>(x.data), x.bytes()));
    exec.space.fence("kvant: after a download");
  }
}

}  // namespace kvant
