// Room quant: which products run on codes, which codes, and how: schemes and calibrators (plugin kinds), rules,
// recipes, the plan that binds them to the sites of a model, and the quantized product itself. This header: Codec, a
// number format as the quantized product uses it. Formats are written as structs (numerics/format.hpp); FormatCodec
// (quant/format_codec.hpp) makes a codec of one, inside the plugin that brings it.
#pragma once

#include "kernels/clipping_search.hpp"
#include "kernels/quantize_tiles.hpp"
#include "tensor/tensor.hpp"

#include <string_view>
#include <vector>

namespace kvant::quant {

class Codec {
 public:
  virtual ~Codec() = default;

  /// Type in which codes are stored; tensors of codes carry it, and no codec takes those of another. i8: integers,
  /// whose products are integer arithmetic.
  virtual DType storage() const = 0;
  /// Bits of a code: fewer than storage has where codes can be packed (kernels/pack.hpp).
  virtual int code_bits() const = 0;
  /// True when the scaled GEMMs read the codes; false: decode() is called first.
  virtual bool readable_by_gemm() const = 0;
  /// The magnitude that the largest entry is mapped to: the largest finite code or, if asked, what the reference takes
  /// (integers: half a step beyond).
  virtual float bound(bool reference) const = 0;
  /// Codes are their own values, so a range that is not symmetric can have a zero point.
  virtual bool integer() const = 0;

  virtual void quantize(const Exec& exec, const QuantizeJob& job) const = 0;
  /// Two quantizations of the same x, rows.scale_along = row and columns.scale_along = column, in as few passes over x
  /// as can be.
  virtual void quantize_pair(const Exec& exec, const QuantizeJob& rows, const QuantizeJob& columns) const = 0;
  /// values (f32) = decoded codes, without the scale. Same shapes.
  virtual void decode(const Exec& exec, const TensorView& codes, const TensorView& values) const = 0;

  virtual void quantize_tiles(const Exec& exec, const TileJob& job) const = 0;
  virtual void dequantize_tiles(const Exec& exec, const TileDecode& job) const = 0;
  virtual void search_clipping(const Exec& exec, const ClippingSearch& job) const = 0;
};

/// The codecs that Kvant itself has, by qtype: int2 to int8 and int16, uint2 to uint8, every small float, nf4, and the
/// codes of the block formats (mxfp8: those of float8_e4m3fn). Null: not one of them.
const Codec* builtin_codec(std::string_view qtype);
std::vector<std::string_view> builtin_qtypes();

/// What a block format says of its scales; every other qtype gives the law back as it is. Kvant's rule rounds powers of
/// two up, so that nothing saturates; `reference`: the biased one of Qwix; `round_up` beside it: that of its release
/// 0.1.8. Scales in e4m3 have the outer scale of the job, if there is one (docs/numerics.md).
ScaleLaw with_block_rule(std::string_view qtype, ScaleLaw law, bool reference, bool round_up = false);

}  // namespace kvant::quant
