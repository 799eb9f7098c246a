#include "quant/transform.hpp"

#include "base/rng.hpp"
#include "kernels/hadamard.hpp"
#include "ops/matmul_site.hpp"
#include "tensor/arena.hpp"

namespace kvant::quant {

TensorView transform(StepContext& ctx, Transform kind, const MatmulSite& site, Arm arm, const TensorView& x, int axis) {
  if (kind == Transform::none) return x;
  const char* const purpose = arm == Arm::forward ? "signs of y " : arm == Arm::dgrad ? "signs of dx " : "signs of dw ";
  const uint64_t stream = stream_of(purpose + site.numbered_path() + " " + site.op);
  const TensorView y = ctx.arena.allocate(DType::f32, x.shape);
  hadamard16(ctx.exec, x, axis, hadamard_signs(ctx.seed, stream), y);
  return y;
}

}  // namespace kvant::quant
