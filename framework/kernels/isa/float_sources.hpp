// What an f32 tile can read: element types that are widened to f32 as they are packed. No standard library header: see
// isa.hpp.
#pragma once

#include <stdint.h>

namespace kvant::isa {

enum class FloatSource : uint8_t { f32, bf16, i8, e4m3fn, e5m2, e4m3fnuz, e5m2fnuz, e2m1 };

struct SourceF32 { using Element = float; };
struct SourceBf16 { using Element = uint16_t; };
struct SourceI8 { using Element = int8_t; };
struct SourceE4m3fn { using Element = uint8_t; };
struct SourceE5m2 { using Element = uint8_t; };
struct SourceE4m3fnuz { using Element = uint8_t; };
struct SourceE5m2fnuz { using Element = uint8_t; };
struct SourceE2m1 { using Element = uint8_t; };  // in the low four bits

}  // namespace kvant::isa
