// Quantization of a matrix: absolute maximum, scale, codes. This header is the description of a job, free of Kokkos;
// the kernels are templates on the format (quantize_kernel.hpp), instantiated here for the formats of Kvant and in a
// plugin for its own.
//
//   v = x[r,c] · multiplier        s = scale of v's row, column (within its group) or tensor        code = encode(v ·
//   (1/s))
#pragma once

#include "numerics/noise.hpp"
#include "tensor/tensor.hpp"

#include <cstdint>

namespace kvant {

struct Exec;

/// What a vector has one number for.
enum class Along : uint8_t {
  tensor,  ///< one number: [1]
  row,     ///< [R]
  column,  ///< [C], or [G,C]: one for each column within each group of rows
};

/// What a scale may be, once m / bound is known. A power of two or an e4m3 number is what block formats store
/// (docs/numerics.md).
enum class ScaleRule : uint8_t {
  exact,                ///< m / bound
  power_of_two_up,      ///< the smallest power of two s with m/s <= bound: nothing saturates
  power_of_two_down,    ///< 2^(floor(log2 m) - floor(log2 bound)), as OCP MX 1.0 has it: up to a binade saturates
  power_of_two_biased,  ///< the reference's: m/bound · rule_factor rounded to bfloat16, its power of two
  e4m3,  ///< m / bound rounded to e4m3fn, 2^-9 to 448, times an outer scale of the tensor where there is one
};

/// How a magnitude becomes a scale and values become codes. The default is Kvant's own arithmetic, in float32 whatever
/// x's type: s = m / bound, 1 where m is zero (and only there), at least the smallest normal number, never infinite; v
/// · (1/s), rounded once to the nearest code. The flags give the reference's arithmetic (docs/numerics.md), for
/// comparison with recorded numbers.
struct ScaleLaw {
  float bound = 1;                   ///< what the calibrated magnitude m is mapped to
  float factor = 1;                  ///< m = factor · max|v|
  float limit = 3.402823466e38f;     ///< v/s is clamped to [-limit, limit] before encoding
  bool scale_by_reciprocal = false;  ///< s = m · (1/bound), as XLA computes it
  bool true_quotient = false;        ///< v / s instead of v · (1/s)
  bool reference_guard = false;      ///< every s below 2^-63 becomes 1, live rows included
  bool input_arithmetic = false;     ///< every result is rounded to x's type, scales too (tiles only)
  ScaleRule rule = ScaleRule::exact;
  float rule_factor = 1;  ///< of power_of_two_biased: 60/31 for 8-bit codes, 12/7 for 4-bit ones
};

/// Noise of stochastic rounding (numerics/noise.hpp). Element (r, c) of a matrix is number (first_row + r) · C + c, or
/// row_ids[r] · C + c: the number of the token, not of the row that it happens to lie in.
struct NoiseJob {
  Rounding rounding = Rounding::nearest;
  uint64_t seed = 0, stream = 0;
  int64_t first_row = 0;
  TensorView row_ids = {};  ///< i32 [R], or empty
  bool by_row = false;      ///< one draw for a whole row, as in the reference: element (r, c) is number r
  /// f32 [R,C], [R,1] or [1,C], or empty: this noise, drawn by somebody else (recorded numbers). A tensor of more axes
  /// counts as rows of its last one.
  TensorView given = {};
};

/// x [R,C] → codes [R,C] and scales. Plain data: crosses plugin borders. Where what shares a scale holds a NaN or an
/// infinity the scale becomes NaN: it poisons the product, so that no code hides the value.
struct QuantizeJob {
  TensorView x;           ///< f32 or bf16 [R,C]; rows may be strided, columns are dense
  TensorView multiplier;  ///< f32, or empty: none
  Along multiplier_along = Along::tensor;

  /// Groups of rows, as a MatmulOp has them: i32 [G+1] in execution memory. Rows from offsets[G] on belong to no group:
  /// their codes are those of zero, and they count for no column scale of a group. Empty: see uniform_group.
  TensorView offsets;
  int64_t uniform_group = 0;  ///< rows of each group where all are equal ([G,k,n] weights: k); 0: one group

  TensorView codes;  ///< one byte (or int16) per element, dense [R,C]
  TensorView scale;  ///< f32, result
  Along scale_along = Along::row;
  ScaleLaw law;
  float fixed_scale = 0;  ///< > 0: the scale is this number (one for the tensor), nothing is measured

  NoiseJob noise;  ///< of stochastic rounding

  TensorView clip;  ///< f32 like scale, or empty: receives m, beyond which a value was clipped
  TensorView
      magnitudes;  ///< i32 workspace with as many elements as `scale`; needed unless the scale is along rows or fixed
  bool ranges_given = false;  ///< magnitudes hold the bits of ranges that somebody has found; nothing is measured (columns or the tensor)
};

/// magnitude (i32 [1]) = bits of the largest |x · multiplier| of the whole matrix; rows of no group do not count where the
/// multiplier has numbers for groups. Reads x, multiplier and groups of the job.
void largest_magnitude(const Exec& exec, const QuantizeJob& job, const TensorView& magnitude);

/// The same for each row: i32 [R].
void row_magnitudes(const Exec& exec, const QuantizeJob& job, const TensorView& magnitudes);

/// product (f32, or bf16 where x is: rounded; [R,C], dense) = x · multiplier of the job; rows of no group are zero where the multiplier has numbers for
/// groups.
void store_multiplied(const Exec& exec, const QuantizeJob& job, const TensorView& product);

/// dst = or += src where |reference| <= bound, else 0 or nothing: the straight-through gradient of an operand that was
/// clipped. All [R,C]; reference and dst f32 or bf16, src f32. Inclusive bounds, from `low`/`high` when bound is empty,
/// else
/// [-bound, bound] with one number for each row or column.
struct ClipMask {
  TensorView reference;
  TensorView bound;
  Along bound_along = Along::tensor;
  float low = 0, high = 0;
};
void store_where_unclipped(const Exec& exec, const ClipMask& mask, const TensorView& src, const TensorView& dst,
                           bool accumulate);

}  // namespace kvant
