#include "kernels/hadamard.hpp"

#include "base/error.hpp"
#include "base/kokkos.hpp"
#include "base/rng.hpp"
#include "numerics/bf16.hpp"

namespace kvant {
namespace hadamard_detail {

KOKKOS_INLINE_FUNCTION void transform(float (&v)[16], uint32_t signs) {
  for (int i = 0; i < 16; ++i) v[i] = (signs >> i & 1u) != 0 ? -v[i] : v[i];
  for (int half = 1; half < 16; half *= 2)
    for (int i = 0; i < 16; i += 2 * half)
      for (int j = i; j < i + half; ++j) {
        const float a = v[j], b = v[j + half];
        v[j] = a + b;
        v[j + half] = a - b;
      }
  for (float& value : v) value *= 0.25f;
}

template <class T>
void run(const Exec& exec, const TensorView& x, int axis, uint32_t signs, const TensorView& y) {
  const auto* in = static_cast<const T*>(x.data);
  auto* out = y.as<float>();
  const long rows = x.shape[0], cols = x.shape[1], ld = x.stride[0];
  const long across = axis == 1 ? cols / 16 : cols, blocks = axis == 1 ? rows * across : rows / 16 * cols;
  const long step_in = axis == 1 ? 1 : ld, step_out = axis == 1 ? 1 : cols;
  Kokkos::parallel_for(
      "kvant::hadamard16", Range(exec.space, 0, blocks), KOKKOS_LAMBDA(const long block) {
        const long r = block / across * (axis == 1 ? 1 : 16), c = block % across * (axis == 1 ? 16 : 1);
        float v[16];
        for (long i = 0; i < 16; ++i) v[i] = to_float(in[r * ld + c + i * step_in]);
        transform(v, signs);
        for (long i = 0; i < 16; ++i) out[r * cols + c + i * step_out] = v[i];
      });
}

}  // namespace hadamard_detail

uint32_t hadamard_signs(uint64_t seed, uint64_t stream) { return philox(seed, stream, 0).word[0] & 0xffffu; }

void hadamard16(const Exec& exec, const TensorView& x, int axis, uint32_t signs, const TensorView& y) {
  require(x.shape.rank == 2 && (axis == 0 || axis == 1) && x.shape[axis] % hadamard_length == 0,
          "hadamard16: axis {} of a shape {} is no multiple of 16.", axis, to_string(x.shape));
  require(y.dtype == DType::f32 && y.contiguous() && y.shape == x.shape, "hadamard16: shape {} does not go to {} of {}.", to_string(x.shape),
          to_string(y.shape), name_of(y.dtype));
  if (x.dtype == DType::f32) return hadamard_detail::run<float>(exec, x, axis, signs, y);
  require(x.dtype == DType::bf16, "hadamard16: {} is not transformed.", name_of(x.dtype));
  hadamard_detail::run<bf16_t>(exec, x, axis, signs, y);
}

}  // namespace kvant
