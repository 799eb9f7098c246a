// SlicedLinear: a projection to heads whose kernel [k, H, a + b] runs as two products, one for the first a columns of every head and
// one for the other b, each at a matmul site of its own (op dot_general0, dot_general1): the reference's use_sliced_mla_proj. A quantized
// site has scales of its own, so that a gradient's rows get two. The parameter stays one.
#pragma once

#include "nn/param.hpp"

#include <array>

namespace kvant::nn {

class SlicedLinear {
 public:
  Param kernel;

  /// `first` and `second` are the widths of the slices of a head.
  void build(const Builder& builder, const Place& place, int64_t k, int64_t heads, int64_t first, int64_t second, Init init, double std);

  void prepare(StepContext& ctx, Operand& x) const;
  /// y [T, H·(a+b)], overwritten.
  void forward(StepContext& ctx, const Operand& x, const TensorView& y) const;
  /// dx (+)= dy · kernelᵀ; kernel.gradient += xᵀ · dy.
  void backward(StepContext& ctx, const Operand& x, const TensorView& dy, const TensorView& dx, Write dx_mode) const;

 private:
  struct Slice {
    MatmulSite site;
    int64_t first = 0, width = 0;
    TensorView value, gradient;  ///< [k, H·width] in the state of the step, as the product wants them
    uint64_t epoch = 0;          ///< of the kernel's value that was copied
  };
  /// Columns of a slice, a head a row.
  TensorView part(const TensorView& whole, const Slice& slice) const;
  /// Copies the kernel's value where it has changed.
  void refresh(StepContext& ctx) const;

  int64_t k_ = 0, heads_ = 0, width_ = 0;
  mutable std::array<Slice, 2> slices_;  ///< copies made from the parameter, as an op's packed weights are
};

}  // namespace kvant::nn
