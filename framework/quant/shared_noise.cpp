#include "quant/shared_noise.hpp"

#include "base/error.hpp"
#include "kernels/noise_rows.hpp"
#include "tensor/arena.hpp"

#include <algorithm>

namespace kvant::quant {
namespace {

bool names(const std::vector<int64_t>& axes, int64_t axis) { return std::ranges::find(axes, axis) != axes.end(); }

}  // namespace

void share_noise(StepContext& ctx, const std::vector<int64_t>& axes, int64_t rows, NoiseJob& noise) {
  const bool sequences = names(axes, 0), positions = names(axes, 1);
  noise.by_row = !names(axes, 2);
  if ((sequences && positions) || rows == 0) return;  // a row's own number tells it apart
  const int64_t length = sequences || positions ? ctx.sequence_length : rows;
  require(length > 0 && rows % length == 0, "Noise by sequence or position of {} rows: a sequence of {} tokens does not say which is which.", rows, length);
  noise.row_ids = ctx.arena.allocate(DType::i32, {rows});
  noise_rows(ctx.exec, length, sequences, positions, noise.row_ids);
}

std::string words_of_noise(const std::vector<int64_t>& axes) {
  constexpr const char* words[noise_axis_count] = {"sequence", "position", "output"};
  std::string text;
  for (int64_t axis = 0; axis < noise_axis_count; ++axis)
    if (names(axes, axis)) text += std::string(text.empty() ? " by " : " and ") + words[axis];
  return text.empty() ? " of one draw" : text;
}

}  // namespace kvant::quant
