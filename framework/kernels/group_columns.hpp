// Columns of one group of rows, one after the other: for calibrators that look at more than a maximum of what an expert's gradient holds.
#pragma once

#include "tensor/tensor.hpp"

#include <cstdint>

namespace kvant {

struct Exec;

struct GroupColumns {
  TensorView x;        ///< f32 [R,C], dense
  TensorView offsets;  ///< i32 [G+1]: rows offsets[g] … offsets[g+1] are group g's
  TensorView values;   ///< f32 [C,R], result: row c begins with column c of the group; what follows is left as it was
  TensorView counts;   ///< i32 [C], result: the rows of the group, once for each column
  TensorView largest;  ///< f32 [C], result: the largest magnitude of each column, NaN where one is NaN; 0 of a group without rows
};
void gather_group_columns(const Exec& exec, const GroupColumns& job, int64_t group);

}  // namespace kvant
