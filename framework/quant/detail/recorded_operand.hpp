// One operand of a recorded product: plain numbers, or codes with scales as Kvant's own codecs make them.
#pragma once

#include "numerics/noise.hpp"
#include "quant/detail/recording.hpp"

#include <span>
#include <string>
#include <vector>

namespace kvant::quant::detail {

/// How an operand is quantized.
struct How {
  std::string qtype, calibration = "absmax";
  std::vector<int> channels;    ///< axes with a scale for each index
  std::vector<AxisTile> tiles;  ///< and those with a scale for each block
  Rounding rounding = Rounding::nearest;
  std::vector<float> noise = {};  ///< stochastic rounding: one number for each element
};

struct Side {
  Shape shape;
  DType type = DType::f32;    ///< of the numbers and, where it is quantized, of the scales
  std::vector<float> values;  ///< the numbers, before they were quantized
  TensorView source;          ///< the same in execution memory
  std::string qtype;          ///< empty: not quantized
  const Codec* codec = nullptr;
  bool raw = false;  ///< codes without their scale, which was folded into the other operand
  TileShape tile{};
  TensorView codes, scale, zero_point, low, high;  ///< as TileJob has them
  bool clips = false;                              ///< gradients are masked by [low, high]
  std::string compared_scale;                      ///< the recorded scale that was compared already

  bool quantized() const { return codec != nullptr; }
  bool has_zero_point() const { return zero_point.data != nullptr; }
  int64_t scales_along(int axis) const { return shape[axis] / tile[static_cast<std::size_t>(axis)]; }
  /// As the reference sees it: neither one scale for the axis nor one for each index.
  bool tiled(int axis) const { return scales_along(axis) != 1 && scales_along(axis) != shape[axis]; }
};

/// A recorded input, F32 or BF16, of 1 to 4 axes and not empty.
Side read_side(Recording& r, const std::string& tensor);
Side plain_side(Recording& r, const Shape& shape, DType type, std::vector<float> values);
/// The same numbers, quantized. `stem` names what the file has of it: a calibration that sums, whose last bit is the order
/// of its additions, is compared within 4e-7 (bfloat16: 2^-7) and then goes on from <stem>_scale.
Side quantize_side(Recording& r, const Side& plain, const How& how, const std::string& stem);
/// Codes alone.
Side raw_side(Side side);
/// The same with its axes in this order.
Side transposed_side(Recording& r, const Side& side, std::span<const int> order);

/// In the words of the file: "float:float32", "qarray:int8", "raw:int8".
std::string words_of(const Side& side);
/// Compares what the file has of a quantized operand: <stem>_scale, _q and, where there is one, _zero_point.
void compare_side(Recording& r, const std::string& stem, const Side& side);

/// The value of each element as the reference multiplies it where it decodes first: rounded to the operand's type.
std::vector<float> dequantized(Recording& r, const Side& side);
/// The magnitude of each element's value, in double.
std::vector<double> magnitudes(Recording& r, const Side& side);
/// Codes, or codes less their zero point, as numbers, without the scale.
std::vector<float> bare_values(Recording& r, const Side& side);

// ---- Axes of dense tensors ------------------------------------------------------------------------------------------

/// Offsets of all combinations of indices of these axes, the last one fastest; {0} of none.
std::vector<int64_t> offsets_of(const Shape& shape, std::span<const int> axes);
/// The same of the scales of tiles.
std::vector<int64_t> scale_offsets_of(const Shape& shape, const TileShape& tile, std::span<const int> axes);
/// The axes that are in none of the lists, ascending.
std::vector<int> other_axes(const Shape& shape, std::span<const int> a, std::span<const int> b = {});
int64_t extent_of(const Shape& shape, std::span<const int> axes);
/// A list of different axes of a tensor.
std::vector<int> axes_from(const nlohmann::json& list, const Shape& shape);

}  // namespace kvant::quant::detail
