#include "kernels/group_padding.hpp"

#include "base/error.hpp"
#include "base/kokkos.hpp"
#include "numerics/bf16.hpp"

namespace kvant {
namespace group_padding_detail {

/// Group that owns the padded row, or `groups`.
KOKKOS_INLINE_FUNCTION long group_of(const int32_t* padded, long groups, long row) {
  long low = 0, high = groups + 1;
  while (high - low > 1) {
    const long middle = (low + high) / 2;
    if (padded[middle] <= row)
      low = middle;
    else
      high = middle;
  }
  return low;
}

template <class From, class To>
void move(const Exec& exec, const TensorView& from, const TensorView& offsets, const TensorView& padded, const TensorView& to) {
  const auto* source = static_cast<const From*>(from.data);
  auto* target = static_cast<To*>(to.data);
  const auto* first = static_cast<const int32_t*>(offsets.data);
  const auto* place = static_cast<const int32_t*>(padded.data);
  const long groups = offsets.shape[0] - 1, rows = to.shape[0], cols = to.shape.rank == 2 ? to.shape[1] : 1, stride = from.stride[0];
  Kokkos::parallel_for(
      "kvant::pad_groups", Range(exec.space, 0, rows), KOKKOS_LAMBDA(const long row) {
        const long g = group_of(place, groups, row);
        const long within = g < groups ? row - place[g] : 0;
        const bool empty = g >= groups || within >= first[g + 1] - first[g];
        const From* in = source + (empty ? 0 : (first[g] + within) * stride);
        for (long c = 0; c < cols; ++c) target[row * cols + c] = empty ? To{} : static_cast<To>(in[c]);
      });
}

struct Widened {
  float value = 0;
  Widened() = default;
  KOKKOS_INLINE_FUNCTION explicit Widened(bf16_t v) : value(to_float(v)) {}
};
static_assert(sizeof(Widened) == sizeof(float));

}  // namespace group_padding_detail

int64_t padded_rows(int64_t rows, int64_t groups, int64_t unit) { return (rows + groups * (unit - 1) + unit - 1) / unit * unit; }

void pad_offsets(const Exec& exec, const TensorView& offsets, int64_t unit, const TensorView& padded) {
  require(offsets.dtype == DType::i32 && padded.dtype == DType::i32 && offsets.numel() == padded.numel() && unit > 0,
          "pad_offsets: {} offsets do not go to {}.", offsets.numel(), padded.numel());
  const auto* first = static_cast<const int32_t*>(offsets.data);
  auto* place = static_cast<int32_t*>(padded.data);
  const long groups = offsets.numel() - 1;
  Kokkos::parallel_for(
      "kvant::pad_offsets", Range(exec.space, 0, 1), KOKKOS_LAMBDA(const long) {
        place[0] = 0;
        for (long g = 0; g < groups; ++g)
          place[g + 1] = place[g] + static_cast<int32_t>((first[g + 1] - first[g] + unit - 1) / unit * unit);
      });
}

void pad_groups(const Exec& exec, const TensorView& from, const TensorView& offsets, const TensorView& padded, const TensorView& to) {
  namespace detail = group_padding_detail;
  require(to.contiguous() && from.shape.rank == to.shape.rank && (to.shape.rank == 1 || (to.shape.rank == 2 && from.shape[1] == to.shape[1])),
          "pad_groups: shape {} does not go to {}.", to_string(from.shape), to_string(to.shape));
  if (from.dtype == DType::f32 && to.dtype == DType::f32) return detail::move<float, float>(exec, from, offsets, padded, to);
  if (from.dtype == DType::bf16 && to.dtype == DType::f32) return detail::move<bf16_t, detail::Widened>(exec, from, offsets, padded, to);
  if (from.dtype == DType::bf16 && to.dtype == DType::bf16) return detail::move<bf16_t, bf16_t>(exec, from, offsets, padded, to);
  require(from.dtype == DType::i32 && to.dtype == DType::i32, "pad_groups: {} does not go to {}.", name_of(from.dtype), name_of(to.dtype));
  detail::move<int32_t, int32_t>(exec, from, offsets, padded, to);
}

}  // namespace kvant
