// Recorded products: files of format "kvant-golden/1" and kind "dot_general_qt", "ragged_dot_qt" or "qarray_matmul".
// verify.hpp says what all files have.
//
// Operands are quantized by Kvant's codecs and multiplied by its kernels. Scales, codes and zero points must be equal;
// integer products in float32 in every bit; others within a bound relative to Σ|a||b|: 4e-7 for integers and 5e-7 for
// anything else in float32, 4e-3 where a bfloat16 scale meets an integer sum on the way to float32, 8e-3 in bfloat16.
//
// What a product is made of is said by `dots`, for each of fwd, dlhs and drhs: {lhs, rhs, dimension_numbers}, an operand
// being "float:<dtype>", "qarray:<qtype>" (tensors <name>/<dot>_<lhs|rhs>_q, _scale and, where there is one, _zero_point)
// or "raw:<qtype>" (codes whose scale went into the gradient). It must be what the settings of the case give.
//
//   dot_general_qt: lhs, rhs, g (names of inputs, F32 or BF16, up to 4 axes), dimension_numbers
//             [[lhs contract, rhs contract], [lhs batch, rhs batch]], config (settings that differ from the metadata
//             config_defaults), dots; tensors <name>/out, /dlhs, /drhs and, where gradients are rounded with noise, /noise (F32,
//             an axis of 1: shared along it). Cases with a sparsity_rule are not offered. Metadata `rejected`: configurations
//             that the reference refuses, {name: {layout, rule, error}}; Kvant must refuse the rule, too.
//   ragged_dot_qt: lhs [M,K], rhs [G,K,N], g [M,N], group_sizes (I32 [G]), lhs_qtype, rhs_qtype, grad_qtype (null: gradients
//             stay as they are), dots (without dimension_numbers); tensors as above.
//   qarray_matmul: op ("dot_general", "ragged_dot"), lhs, rhs, lhs_how, rhs_how (null: a float operand; else qtype,
//             calibration, channelwise_axes, tiled_axes as in kind "quantize"), lhs_is, rhs_is (what `dots` says elsewhere),
//             preferred_element_type (null, "float32", "bfloat16"), dimension_numbers or group_sizes; tensors
//             <name>/lhs_q, /lhs_scale, /lhs_zero_point, the same of rhs, and /out.
#pragma once

#include "quant/verify.hpp"

namespace kvant::quant {

VerifiedFile verify_dot_general(const data::SafetensorsFile& file, const Exec& exec);
VerifiedFile verify_ragged_dot(const data::SafetensorsFile& file, const Exec& exec);
VerifiedFile verify_stored_operands(const data::SafetensorsFile& file, const Exec& exec);

}  // namespace kvant::quant
