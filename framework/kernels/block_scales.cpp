#include "kernels/block_scales.hpp"

#include "base/error.hpp"
#include "base/kokkos.hpp"
#include "numerics/bits.hpp"

namespace kvant {

void scales_by_block(const Exec& exec, const TensorView& scale, const Shape& matrix, const TileShape& tile, int contracted,
                     int64_t group_rows, const TensorView& out) {
  const long rows = matrix[0], cols = matrix[1], group = group_rows > 0 ? group_rows : rows;
  require(out.shape.rank == 2 && out.contiguous() && out.dtype == DType::f32 && scale.dtype == DType::f32 && scale.contiguous(),
          "scales_by_block: scales of shape {} do not go to {}.", to_string(scale.shape), to_string(out.shape));
  const long blocks = out.shape[0], channels = out.shape[1];
  const long length = contracted == 1 ? cols : group, block = blocks > 0 ? length / blocks : 0;
  require(channels == (contracted == 1 ? rows : (group > 0 ? rows / group * cols : cols)) && block * blocks == length &&
              (length == 0 || tile[static_cast<std::size_t>(contracted)] % block == 0),
          "scales_by_block: {} blocks of {} channels are not those of a matrix {}.", blocks, channels, to_string(matrix));
  const float* in = scale.as<float>();
  float* result = out.as<float>();
  const bool one = scale.numel() == 1;
  const long high = tile[0], wide = tile[1], across = wide > 0 ? cols / wide : 1;
  Kokkos::parallel_for(
      "kvant::scales_by_block", Range(exec.space, 0, blocks * channels), KOKKOS_LAMBDA(const long i) {
        const long b = i / channels, channel = i % channels;
        const long r = contracted == 1 ? channel : channel / cols * group + b * block;
        const long c = contracted == 1 ? b * block : channel % cols;
        result[i] = in[one ? 0 : r / high * across + c / wide];
      });
}

void outer_scale(const Exec& exec, const TensorView& magnitude, float bound, const TensorView& to) {
  const auto* seen = static_cast<const int32_t*>(magnitude.data);
  float* result = to.as<float>();
  Kokkos::parallel_for(
      "kvant::outer_scale", Range(exec.space, 0, 1), KOKKOS_LAMBDA(const long) {
        const float largest = float_of(static_cast<uint32_t>(seen[0]));
        const float scale = largest / (bound * 448.0f);
        result[0] = seen[0] >= static_cast<int32_t>(infinity_bits) ? float_of(0x7fc00000u)
                    : seen[0] == 0                                  ? 1.0f
                    : scale < 0x1p-126f                             ? 0x1p-126f
                                                                    : scale;
      });
}

}  // namespace kvant
