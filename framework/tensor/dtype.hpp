// Room tensor: what a block of numbers is (type, shape, strides, memory space), free of Kokkos headers.
#pragma once

#include "base/bf16_type.hpp"

#include <cstddef>
#include <cstdint>
#include <string_view>

namespace kvant {

/// The storage types. The fp8 variant is part of the type everywhere: OCP (e4m3fn, e5m2) and FNUZ are never mixed. Codes
/// of fewer than 8 bits (e2m1, nf4, and integers as i8 or u8) lie one to a byte, in its low bits.
enum class DType : uint8_t {
  f32, bf16, f16, i8, u8, i32, e4m3fn, e5m2,
  i16, u16, e4m3, e3m4, e4m3fnuz, e5m2fnuz, e4m3b11fnuz, e2m1, nf4, e8m0
};

constexpr std::size_t size_of(DType t) {
  switch (t) {
    case DType::f32:
    case DType::i32: return 4;
    case DType::bf16:
    case DType::f16:
    case DType::i16:
    case DType::u16: return 2;
    default: return 1;
  }
}

constexpr std::string_view name_of(DType t) {
  switch (t) {
    case DType::f32: return "float32";
    case DType::bf16: return "bfloat16";
    case DType::f16: return "float16";
    case DType::i8: return "int8";
    case DType::u8: return "uint8";
    case DType::i32: return "int32";
    case DType::e4m3fn: return "float8_e4m3fn";
    case DType::e5m2: return "float8_e5m2";
    case DType::i16: return "int16";
    case DType::u16: return "uint16";
    case DType::e4m3: return "float8_e4m3";
    case DType::e3m4: return "float8_e3m4";
    case DType::e4m3fnuz: return "float8_e4m3fnuz";
    case DType::e5m2fnuz: return "float8_e5m2fnuz";
    case DType::e4m3b11fnuz: return "float8_e4m3b11fnuz";
    case DType::e2m1: return "float4_e2m1fn";
    case DType::nf4: return "nf4";
    case DType::e8m0: return "float8_e8m0fnu";
  }
  return "?";
}

template <class T>
struct DTypeOf;
template <> struct DTypeOf<float> { static constexpr DType value = DType::f32; };
template <> struct DTypeOf<bf16_t> { static constexpr DType value = DType::bf16; };
template <> struct DTypeOf<int8_t> { static constexpr DType value = DType::i8; };
template <> struct DTypeOf<uint8_t> { static constexpr DType value = DType::u8; };
template <> struct DTypeOf<int32_t> { static constexpr DType value = DType::i32; };

}  // namespace kvant
