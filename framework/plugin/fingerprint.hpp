// Fingerprint: what must be equal in a plugin and in Kvant for C++ objects to cross between them. A constant text, made
// from macros by whoever includes this header: fields "key=value" separated by semicolons, in a fixed order.
//   abi        KVANT_PLUGIN_ABI
//   kokkos     version
//   backends   execution spaces that Kokkos was configured with
//   gpu        architecture that device code is built for; none without a device, unnamed where Kokkos does not say
//   compiler   name and major version (gcc14, clang18; with nvcc also its own: nvcc13+gcc14)
//   cxx        __cplusplus / 100
//   stdlib     standard library and its string ABI
//   checks     bounds checks and sanitizers that change layouts or symbols, or none
//   mpi        implementation and major version of Kvant's MPI (KVANT_MPI, defined by its CMake target)
#pragma once

#include "base/kokkos_version.hpp"
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

// Adds a name to the list if a macro is defined: the text of an undefined macro is its own name.
#define KVANT_TEXT_OF(macro) #macro
#define KVANT_EXPANDED_TEXT_OF(macro) KVANT_TEXT_OF(macro)
#define KVANT_ITEM_IF(macro, name) \
  if (std::string_view(KVANT_EXPANDED_TEXT_OF(macro)) != #macro) t.item(name)

consteval void add_backends(FingerprintText& t) {
  t.add(";backends=");
  KVANT_ITEM_IF(KOKKOS_ENABLE_CUDA, "Cuda");
  KVANT_ITEM_IF(KOKKOS_ENABLE_HIP, "HIP");
  KVANT_ITEM_IF(KOKKOS_ENABLE_SYCL, "SYCL");
  KVANT_ITEM_IF(KOKKOS_ENABLE_OPENMP, "OpenMP");
  KVANT_ITEM_IF(KOKKOS_ENABLE_THREADS, "Threads");
  KVANT_ITEM_IF(KOKKOS_ENABLE_SERIAL, "Serial");
  const std::size_t before = t.add(";gpu=").size;
  KVANT_ITEM_IF(KOKKOS_ARCH_VOLTA70, "sm_70");
  KVANT_ITEM_IF(KOKKOS_ARCH_VOLTA72, "sm_72");
  KVANT_ITEM_IF(KOKKOS_ARCH_TURING75, "sm_75");
  KVANT_ITEM_IF(KOKKOS_ARCH_AMPERE80, "sm_80");
  KVANT_ITEM_IF(KOKKOS_ARCH_AMPERE86, "sm_86");
  KVANT_ITEM_IF(KOKKOS_ARCH_AMPERE87, "sm_87");
  KVANT_ITEM_IF(KOKKOS_ARCH_ADA89, "sm_89");
  KVANT_ITEM_IF(KOKKOS_ARCH_HOPPER90, "sm_90");
  KVANT_ITEM_IF(KOKKOS_ARCH_BLACKWELL100, "sm_100");
  KVANT_ITEM_IF(KOKKOS_ARCH_BLACKWELL103, "sm_103");
  KVANT_ITEM_IF(KOKKOS_ARCH_BLACKWELL120, "sm_120");
  KVANT_ITEM_IF(KOKKOS_ARCH_BLACKWELL121, "sm_121");
#if defined(KOKKOS_ARCH_AMD_GPU)
  t.item(KOKKOS_ARCH_AMD_GPU);
#endif
  if (t.size != before) return;
#if defined(KOKKOS_ENABLE_CUDA) || defined(KOKKOS_ENABLE_HIP) || defined(KOKKOS_ENABLE_SYCL)
  t.add("unnamed");
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
  KVANT_ITEM_IF(_GLIBCXX_DEBUG, "glibcxx_debug");
  KVANT_ITEM_IF(_GLIBCXX_ASSERTIONS, "glibcxx_assertions");
  KVANT_ITEM_IF(KOKKOS_ENABLE_DEBUG, "kokkos_debug");
  KVANT_ITEM_IF(KOKKOS_ENABLE_DEBUG_BOUNDS_CHECK, "kokkos_bounds");
#if defined(__SANITIZE_ADDRESS__)
  t.item("asan");
#elif defined(__clang__)
#if __has_feature(address_sanitizer)
  t.item("asan");
#endif
#endif
  if (t.size == before) t.add("none");
}

#undef KVANT_ITEM_IF
#undef KVANT_EXPANDED_TEXT_OF
#undef KVANT_TEXT_OF

consteval FingerprintText make_fingerprint() {
  FingerprintText t;
  t.add("abi=").add(KVANT_PLUGIN_ABI);
  t.add(";kokkos=")
      .add(KOKKOS_VERSION / 10000)
      .add(".")
      .add(KOKKOS_VERSION / 100 % 100)
      .add(".")
      .add(KOKKOS_VERSION % 100);
  add_backends(t);
  add_compiler(t);
  add_checks(t);
  t.add(";mpi=").add(KVANT_MPI);
  return t;
}

}  // namespace detail

inline constexpr detail::FingerprintText fingerprint = detail::make_fingerprint();

}  // namespace kvant::plugin
