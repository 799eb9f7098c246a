// How a result is stored: the gradient law says that an activation gradient is overwritten by its first writer and
// accumulated by the rest, so every operation with a result says which.
#pragma once

#include <cstdint>

namespace kvant {

enum class Write : uint8_t { overwrite, accumulate };

}  // namespace kvant
