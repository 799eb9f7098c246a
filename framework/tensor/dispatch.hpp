// From the type that a tensor carries at run time to the type that a kernel is compiled for: the only type switch of
// the program. The callable is a lambda with one type parameter, which calls a named function template:
//   dispatch_activation(x.dtype, "rmsnorm", [&]<class T>() { rmsnorm_rows<T>(exec, x, y); });
#pragma once

#include "base/error.hpp"
#include "tensor/dtype.hpp"

#include <string_view>
#include <utility>

namespace kvant {

/// Activations are stored as float32 or bfloat16; any other type is a mistake of the caller and says so.
template <class F>
void dispatch_activation(DType dtype, std::string_view kernel, F&& f) {
  switch (dtype) {
    case DType::f32:
      return std::forward<F>(f).template operator()<float>();
    case DType::bf16:
      return std::forward<F>(f).template operator()<bf16_t>();
    default:
      break;
  }
  fail("The kernel {} was given a tensor of {}; it takes float32 and bfloat16.", kernel, name_of(dtype));
}

}  // namespace kvant
