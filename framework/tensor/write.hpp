// What a kernel does with the tensor it is given for its result. The gradient law of the house: parameter gradients
// accumulate; an activation gradient is overwritten by its first writer and accumulated by the rest, and the call says which.
#pragma once

namespace kvant {

enum class Write { overwrite, accumulate };

}  // namespace kvant
