// Fingerprint: what must be equal in a plugin and in Kvant for C++ objects to cross between them. A constant text, made from
// macros by whoever includes this header: fields "key=value" separated by semicolons, in a fixed order.
//   abi        KVANT_PLUGIN_ABI
//   kokkos     version
//   backends   execution spaces that Kokkos was configured with
//   gpu        architecture that device code is built for, or none
//   compiler   name and major version (gcc14, clang18; with nvcc also its own: nvcc13+gcc14)
//   cxx        __cplusplus / 100
//   stdlib     standard library and its string ABI
//   checks     bounds checks and sanitizers that change layouts or symbols, or none
//   mpi        implementation and major version of the MPI that Kvant was built with (KVANT_MPI, defined by its CMake target)
#pragma once

#include "base/kokkos.hpp"
#include "plugin/abi.hpp"

#include <cstddef>
#include <string_view>

namespace kvant::plugin {

/// A text that is put together at compile time; does not compile when it does not fit.
template <std::size_t N>
struct FixedText {
  char text[N]{};
  std::size_t size = 0;

  constexpr FixedText& add(std::string_view more) {
    if (size + more.size() >= N) throw "The text is too long for its field.";
    for (const char c : more) text[size++] = c;
    return *this;
  }
  constexpr FixedText& add(long number) {
    if (number >= 10) add(number / 10);
    const char digit = static_cast<char>('0' + number % 10);
    return add(std::string_view(&digit, 1));
  }
  /// A name of a list: a comma goes before all but the first.
  constexpr FixedText& item(std::string_view more) {
    if (size > 0 && text[size - 1] != '=') add(",");
    return add(more);
  }
  constexpr std::string_view view() const { return {text, size}; }
};

namespace detail {

using FingerprintText = FixedText<320>;

consteval void add_backends(FingerprintText& t) {
  t.add(";backends=");
#if defined(KOKKOS_ENABLE_CUDA)
  t.item("Cuda");
#endif
#if defined(KOKKOS_ENABLE_HIP)
  t.item("HIP");
#endif
#if defined(KOKKOS_ENABLE_SYCL)
  t.item("SYCL");
#endif
#if defined(KOKKOS_ENABLE_OPENMP)
  t.item("OpenMP");
#endif
#if defined(KOKKOS_ENABLE_THREADS)
  t.item("Threads");
#endif
#if defined(KOKKOS_ENABLE_SERIAL)
  t.item("Serial");
#endif
  t.add(";gpu=");
#if defined(KOKKOS_ARCH_AMD_GPU)
  t.add(KOKKOS_ARCH_AMD_GPU);
#elif defined(KOKKOS_ARCH_NVIDIA_GPU)
  t.add("sm_").add(KOKKOS_ARCH_NVIDIA_GPU);
#elif defined(KOKKOS_ARCH_BLACKWELL100)
  t.add("sm_100");
#elif defined(KOKKOS_ARCH_HOPPER90)
  t.add("sm_90");
#elif defined(KOKKOS_ARCH_ADA89)
  t.add("sm_89");
#elif defined(KOKKOS_ARCH_AMPERE86)
  t.add("sm_86");
#elif defined(KOKKOS_ARCH_AMPERE80)
  t.add("sm_80");
#elif defined(KOKKOS_ENABLE_CUDA) || defined(KOKKOS_ENABLE_HIP) || defined(KOKKOS_ENABLE_SYCL)
  t.add("other");
#else
  t.add("none");
#endif
}

consteval void add_compiler(FingerprintText& t) {
  t.add(";compiler=");
#if defined(__CUDACC_VER_MAJOR__)
  t.add("nvcc").add(__CUDACC_VER_MAJOR__).add("+");
#endif
#if defined(__clang__)
  t.add("clang").add(__clang_major__);
#elif defined(__GNUC__)
  t.add("gcc").add(__GNUC__);
#else
#error "Kvant's plugins are built with GCC or Clang, or with nvcc or hipcc on top of them."
#endif
  t.add(";cxx=").add(__cplusplus / 100);
  t.add(";stdlib=");
#if defined(__GLIBCXX__) && _GLIBCXX_USE_CXX11_ABI
  t.add("libstdc++-cxx11");
#elif defined(__GLIBCXX__)
  t.add("libstdc++-old");
#elif defined(_LIBCPP_ABI_VERSION)
  t.add("libc++-").add(_LIBCPP_ABI_VERSION);
#else
  t.add("other");
#endif
}

consteval void add_checks(FingerprintText& t) {
  const std::size_t before = t.add(";checks=").size;
#if defined(_GLIBCXX_DEBUG)
  t.item("glibcxx_debug");
#endif
#if defined(_GLIBCXX_ASSERTIONS)
  t.item("glibcxx_assertions");
#endif
#if defined(KOKKOS_ENABLE_DEBUG)
  t.item("kokkos_debug");
#endif
#if defined(KOKKOS_ENABLE_DEBUG_BOUNDS_CHECK)
  t.item("kokkos_bounds");
#endif
#if defined(__SANITIZE_ADDRESS__)
  t.item("asan");
#elif defined(__has_feature)
#if __has_feature(address_sanitizer)
  t.item("asan");
#endif
#endif
  if (t.size == before) t.add("none");
}

consteval FingerprintText make_fingerprint() {
  FingerprintText t;
  t.add("abi=").add(KVANT_PLUGIN_ABI);
  t.add(";kokkos=").add(KOKKOS_VERSION / 10000).add(".").add(KOKKOS_VERSION / 100 % 100).add(".").add(KOKKOS_VERSION % 100);
  add_backends(t);
  add_compiler(t);
  add_checks(t);
  t.add(";mpi=").add(KVANT_MPI);
  return t;
}

}  // namespace detail

inline constexpr detail::FingerprintText fingerprint = detail::make_fingerprint();

}  // namespace kvant::plugin
