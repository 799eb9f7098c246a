// bfloat16 as a type of storage: the upper half of a float. Arithmetic is in f32; numerics/bf16.hpp has the
// conversions.
#pragma once

#include <cstdint>

namespace kvant {

struct bf16_t {
  uint16_t bits;
};

}  // namespace kvant
