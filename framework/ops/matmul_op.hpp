// MatmulOp: a matrix product with its two backward arms, plain or quantized, dense or grouped by expert.
//   forward   y[R,n]  (+)= x[R,k] · w[k,n]
//   dgrad     dx[R,k] (+)= dy[R,n] · w[k,n]ᵀ
//   wgrad     dw[k,n]  +=  x[R,k]ᵀ · dy[R,n]
// Grouped: w is [G,k,n], the rows of x are sorted by group and group g owns rows offsets[g] .. offsets[g+1]; rows beyond the
// last group give zero; a group without rows is legal and its gradient is zero.
#pragma once

#include "ops/context.hpp"
#include "tensor/tensor.hpp"
#include "tensor/write.hpp"

#include <array>
#include <cstdint>

namespace kvant {

/// A weight as an op sees it: the f32 master, where its gradient accumulates, and a number that moves whenever the value changes
/// (optimizer, loading). An op that keeps something made from the weight (codes, a packing) compares epochs, so that the
/// copy is made once per step, serves every micro-batch, and never outlives the value.
struct WeightRef {
  const TensorView* value = nullptr;  ///< f32 [k,n] or [G,k,n], or any shape with these numbers of elements in this order
  const TensorView* gradient = nullptr;
  const uint64_t* epoch = nullptr;
};

/// Rows by group; no offsets: one dense product.
struct Groups {
  TensorView offsets;  ///< i32 [G+1] in execution memory, or empty
  TensorView row_ids;  ///< i32 [R]: token · top-k + slot of each row, so that noise belongs to it wherever it was sorted to
  bool grouped() const { return offsets.data != nullptr; }
};

/// Codes and scales that an op made of a left operand. Opaque to nn/: it is kept, shared and handed back.
struct Payload {
  uint32_t key = 0;  ///< ops with equal keys make equal payloads of equal tensors; 0: none
  TensorView codes;
  TensorView scale;
  TensorView zero_point, low, high;  ///< where the op needs them
};

/// A left operand, prepared once for all sites that read it (wi_0 and wi_1, wq_a and wkv_a) and kept until backward.
struct Operand {
  TensorView tensor;  ///< [R,k] as the model computed it
  static constexpr int max_payloads = 3;
  std::array<Payload, max_payloads> payload{};

  Operand() = default;
  explicit Operand(const TensorView& x) : tensor(x) {}
  const Payload* find(uint32_t key) const {
    for (const Payload& p : payload)
      if (key != 0 && p.key == key) return &p;
    return nullptr;
  }
  Payload& add(uint32_t key);  ///< throws when full
};

enum class Arm : uint8_t { forward, dgrad, wgrad };

class MatmulOp {
 public:
  virtual ~MatmulOp();

  /// The type whose arithmetic runs this arm's multiplications: i8 for integer products, f32 for everything that is decoded
  /// first. It is what the operation count of `sol` is divided by the peak of.
  virtual DType arithmetic(Arm arm) const;

  /// Makes what forward and wgrad need of x, unless the operand carries it already. A plain op needs the tensor alone.
  virtual void prepare(StepContext& ctx, Operand& x, const Groups& groups);

  /// y's dtype decides how the result is rounded.
  virtual void forward(StepContext& ctx, const Operand& x, const Groups& groups, const TensorView& y, Write mode) = 0;

  /// Both arms from one dy. dx may be empty (nobody asks for it). The weight gradient accumulates.
  virtual void backward(StepContext& ctx, const Operand& x, const Groups& groups, const TensorView& dy, const TensorView& dx,
                        Write dx_mode) = 0;
};

}  // namespace kvant
