#include "ops/plain_matmul.hpp"

#include "base/kokkos.hpp"
#include "kernels/elementwise.hpp"
#include "kernels/gemm.hpp"
#include "kernels/grouped_gemm.hpp"
#include "ops/matmul_site.hpp"
#include "tensor/arena.hpp"

namespace kvant {
namespace {

class PlainMatmul final : public MatmulOp {
 public:
  explicit PlainMatmul(const MatmulSite& site) : site_(site) {}

  void forward(StepContext& ctx, const Operand& x, const Groups& groups, const TensorView& y, Write mode) override {
    const TensorView w = weight(ctx, site_.compute);
    if (groups.grouped())
      grouped_gemm(ctx.exec, false, x.tensor, w, groups.offsets, y, mode, ctx.arena);
    else
      gemm(ctx.exec, false, false, x.tensor, w, y, mode, ctx.arena);
  }

  void backward(StepContext& ctx, const Operand& x, const Groups& groups, const TensorView& dy, const TensorView& dx,
                Write dx_mode) override {
    const TensorView w = weight(ctx, site_.compute);
    const TensorView dw = shaped(*site_.weight.gradient);
    if (groups.grouped()) {
      if (!dx.empty()) grouped_gemm(ctx.exec, true, dy, w, groups.offsets, dx, dx_mode, ctx.arena);
      grouped_gemm_wgrad(ctx.exec, x.tensor, dy, groups.offsets, dw, Write::accumulate, ctx.arena);
    } else {
      if (!dx.empty()) gemm(ctx.exec, false, true, dy, w, dx, dx_mode, ctx.arena);
      gemm(ctx.exec, true, false, x.tensor, dy, dw, Write::accumulate, ctx.arena);
    }
  }

 private:
  TensorView shaped(const TensorView& w) const {
    return site_.groups > 0 ? w.reshaped({site_.groups, site_.k, site_.n}) : w.reshaped({site_.k, site_.n});
  }

  /// The f32 master itself, or its copy rounded to bfloat16, made once per value.
  TensorView weight(StepContext& ctx, DType compute) {
    const TensorView master = shaped(*site_.weight.value);
    if (compute == DType::f32) return master;
    if (rounded_.data == nullptr) rounded_ = ctx.state.allocate(compute, master.shape);
    if (epoch_ != *site_.weight.epoch) {
      copy(ctx.exec, master, rounded_);
      epoch_ = *site_.weight.epoch;
    }
    return rounded_;
  }

  const MatmulSite& site_;
  TensorView rounded_;
  uint64_t epoch_ = 0;  // a parameter's first epoch is 1
};

}  // namespace

std::unique_ptr<MatmulOp> make_plain_matmul(const MatmulSite& site) { return std::make_unique<PlainMatmul>(site); }

}  // namespace kvant
