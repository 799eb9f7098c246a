#include "nn/linear.hpp"

#include "ops/plain_matmul.hpp"

namespace kvant::nn {

void Linear::build(const Builder& builder, const Place& place, int64_t k, int64_t n, const Shape& kernel_shape, Init init, double std,
                   const std::string& op) {
  require(kernel_shape.numel() == k * n, "The kernel of {} has shape {}, not {} x {}.", place.numbered(), to_string(kernel_shape), k, n);
  builder.name(kernel, place.numbered() + "/kernel", kernel_shape, init, std);
  site.path = place.scanned();
  site.layer = place.layer;
  site.op = op;
  site.k = k;
  site.n = n;
  site.compute = builder.dtype();
  site.weight = {&kernel.value, &kernel.gradient, &kernel.epoch};
  site.bound = make_plain_matmul(site);
  builder.sites.add(site);
}

void Linear::forward(StepContext& ctx, const Operand& x, const TensorView& y, Write mode) const {
  site.op_ref().forward(ctx, x, {}, y, mode);
  if (ctx.tap != nullptr) ctx.show("out/" + site.numbered_path(), y);
}

void Linear::backward(StepContext& ctx, const Operand& x, const TensorView& dy, const TensorView& dx, Write dx_mode) const {
  site.op_ref().backward(ctx, x, {}, dy, dx, dx_mode);
}

}  // namespace kvant::nn
