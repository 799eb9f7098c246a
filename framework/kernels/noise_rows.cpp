#include "kernels/noise_rows.hpp"

#include "base/error.hpp"
#include "base/kokkos.hpp"

namespace kvant {

void noise_rows(const Exec& exec, int64_t sequence, bool by_sequence, bool by_position, const TensorView& numbers) {
  require(numbers.dtype == DType::i32 && numbers.contiguous(), "noise_rows: {} of shape {} holds no numbers of rows.", name_of(numbers.dtype),
          to_string(numbers.shape));
  require(sequence > 0 && numbers.numel() % sequence == 0, "noise_rows: {} rows are no whole number of sequences of {}.", numbers.numel(), sequence);
  auto* out = static_cast<int32_t*>(numbers.data);
  const long length = sequence, of_sequence = !by_sequence ? 0 : by_position ? length : 1, of_position = by_position ? 1 : 0;
  Kokkos::parallel_for(
      "kvant::noise_rows", Range(exec.space, 0, numbers.numel()),
      KOKKOS_LAMBDA(const long r) { out[r] = static_cast<int32_t>(r / length * of_sequence + r % length * of_position); });
}

}  // namespace kvant
