#include "nn/sliced_linear.hpp"

#include "kernels/elementwise.hpp"
#include "ops/plain_matmul.hpp"
#include "tensor/arena.hpp"

namespace kvant::nn {

void SlicedLinear::build(const Builder& builder, const Place& place, int64_t k, int64_t heads, int64_t first, int64_t second, Init init, double std) {
  k_ = k, heads_ = heads, width_ = first + second;
  builder.name(kernel, place.numbered() + "/kernel", {k, heads, width_}, init, std);
  slices_[0].width = slices_[1].first = first;
  slices_[1].width = second;
  int number = 0;
  for (Slice& s : slices_) {
    s.site.path = place.scanned();
    s.site.layer = place.layer;
    s.site.op = "dot_general" + std::to_string(number++);
    s.site.k = k;
    s.site.n = heads * s.width;
    s.site.compute = builder.dtype();
    s.site.weight = {&s.value, &s.gradient, &s.epoch};
    s.site.bound = make_plain_matmul(s.site);
    builder.sites.add(s.site);
  }
}

TensorView SlicedLinear::part(const TensorView& whole, const Slice& slice) const {
  return whole.reshaped({whole.numel() / width_, width_}).slice_cols(slice.first, slice.width);
}

void SlicedLinear::refresh(StepContext& ctx) const {
  for (Slice& s : slices_) {
    if (s.epoch == kernel.epoch) continue;
    if (s.value.data == nullptr) {
      s.value = ctx.state.allocate(DType::f32, {k_, heads_ * s.width});
      s.gradient = ctx.state.allocate(DType::f32, {k_, heads_ * s.width});
    }
    copy(ctx.exec, part(kernel.value, s), s.value.reshaped({k_ * heads_, s.width}));
    s.epoch = kernel.epoch;
  }
}

void SlicedLinear::prepare(StepContext& ctx, Operand& x) const {
  for (const Slice& s : slices_) s.site.op_ref().prepare(ctx, x, {});
}

void SlicedLinear::forward(StepContext& ctx, const Operand& x, const TensorView& y) const {
  refresh(ctx);
  for (Slice& s : slices_) {
    const ArenaScope scope(ctx.arena);
    const TensorView mine = ctx.arena.allocate(y.dtype, {y.rows(), heads_ * s.width});
    s.site.op_ref().forward(ctx, x, {}, mine, Write::overwrite);
    copy(ctx.exec, mine.reshaped({y.rows() * heads_, s.width}), part(y, s));
  }
  if (ctx.tap != nullptr) ctx.show("out/" + slices_[0].site.numbered_path(), y);
}

void SlicedLinear::backward(StepContext& ctx, const Operand& x, const TensorView& dy, const TensorView& dx, Write dx_mode) const {
  refresh(ctx);
  for (Slice& s : slices_) {
    const ArenaScope scope(ctx.arena);
    const TensorView mine = ctx.arena.allocate(dy.dtype, {dy.rows(), heads_ * s.width});
    copy(ctx.exec, part(dy, s), mine.reshaped({dy.rows() * heads_, s.width}));
    fill(ctx.exec, s.gradient, 0.0f);
    s.site.op_ref().backward(ctx, x, {}, mine, dx, s.first == 0 ? dx_mode : Write::accumulate);
    accumulate(ctx.exec, s.gradient.reshaped({k_ * heads_, s.width}), part(kernel.gradient, s));
  }
}

}  // namespace kvant::nn
