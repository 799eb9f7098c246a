// The tensor type for codes of a format where a kernel is called without its codec.
#pragma once

#include "numerics/formats.hpp"
#include "tensor/dtype.hpp"

#include <type_traits>

namespace kvant::test {

template <class Format>
constexpr DType code_type() {
  using Code = typename Format::storage;
  if (sizeof(Code) == 2) return std::is_signed_v<Code> ? DType::i16 : DType::u16;
  return std::is_signed_v<Code> ? DType::i8 : DType::u8;
}

}  // namespace kvant::test
