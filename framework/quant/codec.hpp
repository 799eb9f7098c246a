// Room quant: which products run on codes, which codes, and how: schemes and calibrators (plugin kinds), rules,
// recipes, the plan that binds them to the sites of a model, and the quantized product itself. This header: Codec, a
// number format as the quantized product uses it. Formats are written as structs (numerics/format.hpp); FormatCodec
// (quant/format_codec.hpp) makes a codec of one, inside the plugin that brings it.
#pragma once

#include "kernels/quantize.hpp"
#include "tensor/tensor.hpp"

#include <string_view>
#include <vector>

namespace kvant::quant {

class Codec {
 public:
  virtual ~Codec() = default;

  /// Type in which codes are stored. i8: integers, whose products are integer arithmetic.
  virtual DType storage() const = 0;
  /// True when the scaled GEMMs read the codes; false: decode() is called first.
  virtual bool readable_by_gemm() const = 0;
  /// The magnitude that the largest entry is mapped to: the largest finite code or, for integers and if asked, half a
  /// step beyond.
  virtual float bound(bool half_step) const = 0;

  virtual void quantize(const Exec& exec, const QuantizeJob& job) const = 0;
  /// Two quantizations of the same x, rows.scale_along = row and columns.scale_along = column, in as few passes over x
  /// as can be.
  virtual void quantize_pair(const Exec& exec, const QuantizeJob& rows, const QuantizeJob& columns) const = 0;
  /// values (f32) = decoded codes, without the scale. Same shapes.
  virtual void decode(const Exec& exec, const TensorView& codes, const TensorView& values) const = 0;
};

/// The codecs that Kvant itself has, by qtype: int8, float8_e4m3fn, float8_e5m2. Null: not one of them.
const Codec* builtin_codec(std::string_view qtype);
std::vector<std::string_view> builtin_qtypes();

}  // namespace kvant::quant
