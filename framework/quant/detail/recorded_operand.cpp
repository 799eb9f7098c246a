#include "quant/detail/recorded_operand.hpp"

#include "kernels/transfer.hpp"
#include "numerics/bf16.hpp"
#include "quant/calibrator.hpp"
#include "quant/operand_quantizer.hpp"

#include <algorithm>
#include <bit>
#include <cmath>
#include <limits>
#include <utility>

namespace kvant::quant::detail {

using nlohmann::json;

Side plain_side(Recording& r, const Shape& shape, DType type, std::vector<float> values) {
  Side side;
  side.shape = shape;
  side.type = type;
  side.source = r.bench().floats(type, shape, values);
  side.values = std::move(values);
  return side;
}

Side read_side(Recording& r, const std::string& tensor) {
  const DType type = r.float_type_of(tensor);
  const Shape shape = r.shape_of(tensor);
  if (shape.rank < 1 || shape.numel() < 1)
    refuse("The input \"{}\" has the shape {}; an operand of a product has numbers.", tensor, to_string(shape));
  return plain_side(r, shape, type, r.floats(tensor));
}

namespace {

Shape scales_of(const Side& side) {
  Shape scales = side.shape;
  for (int a = 0; a < side.shape.rank; ++a) scales.dim[static_cast<std::size_t>(a)] = side.scales_along(a);
  return scales;
}

/// A range that the law makes this scale of, near scale · bound; NaN where there is none.
float range_of(const ScaleLaw& law, DType type, float scale) {
  const auto rounded = [&](float v) { return type == DType::bf16 ? to_float(to_bf16(v)) : v; };
  const float reciprocal = rounded(1.0f / law.bound), start = rounded(scale * law.bound);
  const int step = type == DType::bf16 ? 1 << 16 : 1;
  for (const int away : {0, 1, -1, 2, -2, 3, -3}) {
    const float range = std::bit_cast<float>(std::bit_cast<int32_t>(start) + away * step);
    if (rounded(law.scale_by_reciprocal ? range * reciprocal : range / law.bound) == scale) return range;
  }
  return std::nanf("");
}

/// Quantizes again, from the recorded scale.
void go_on_from(Recording& r, Side& side, TileJob job, const std::string& tensor) {
  r.expect(tensor, side.type, scales_of(side));
  const std::vector<float> ours = r.bench().read(side.scale), recorded = r.floats(tensor, ours.size());
  std::vector<float> ranges;
  double worst = 0;
  for (std::size_t i = 0; i < ours.size(); ++i) {
    ranges.push_back(range_of(job.law, side.type, recorded[i]));
    const double error = std::fabs(static_cast<double>(ours[i]) - static_cast<double>(recorded[i])) / std::fabs(static_cast<double>(recorded[i]));
    worst = std::fmax(worst, std::isnan(error) || std::isnan(ranges[i]) ? std::numeric_limits<double>::infinity() : error);
  }
  r.add(tensor, "relative", worst, side.type == DType::f32 ? 4e-7 : 0x1p-7);
  side.compared_scale = tensor;
  upload(r.exec(), ranges.data(), side.high);
  job.statistic = Statistic::given;
  job.workspace = r.arena().allocate(DType::i32, {tile_workspace(job)});
  side.codec->quantize_tiles(r.exec(), job);
}

}  // namespace

Side quantize_side(Recording& r, const Side& plain, const How& how, const std::string& stem) {
  Side side = plain;
  side.qtype = how.qtype;
  side.codec = &r.codec_of(how.qtype);
  const Calibration calibration = parse_calibration(how.calibration);
  side.clips = calibration.clips();
  // One range for the tensor has one scale; tiles that do not divide are refused all the same.
  side.tile = tile_shape(side.shape, how.channels, how.tiles);
  if (!calibration.measured) side.tile = tile_shape(side.shape, {}, {});
  const Shape scales{tile_count(side.shape, side.tile)};
  Arena& arena = r.arena();
  side.codes = arena.allocate(side.codec->storage(), side.shape);
  for (TensorView* v : {&side.scale, &side.low, &side.high}) *v = arena.allocate(DType::f32, scales);
  if (calibration.zero_point) side.zero_point = arena.allocate(DType::i32, scales);
  TileJob job;
  job.x = side.source;
  job.tile = side.tile;
  job.codes = side.codes;
  job.scale = side.scale;
  job.zero_point = side.zero_point;
  job.high = side.high;
  if (calibration.zero_point) job.low = side.low;
  job.law = r.law_of(how.qtype, *side.codec);
  if (how.rounding != Rounding::nearest) {
    job.noise.rounding = how.rounding;
    job.noise.given = r.bench().floats(DType::f32, {job.x.rows(), job.x.cols()}, how.noise);
  }
  quantize_tiles(r.exec(), arena, *side.codec, calibration, job);
  if (!calibration.zero_point) side.low = {};
  if (calibration.search != nullptr) go_on_from(r, side, job, stem + "_scale");
  return side;
}

Side raw_side(Side side) {
  side.raw = true;
  return side;
}

Side transposed_side(Recording& r, const Side& side, std::span<const int> order) {
  Side turned = side;
  for (int a = 0; a < side.shape.rank; ++a) {
    turned.shape.dim[static_cast<std::size_t>(a)] = side.shape[order[static_cast<std::size_t>(a)]];
    turned.tile[static_cast<std::size_t>(a)] = side.tile[static_cast<std::size_t>(order[static_cast<std::size_t>(a)])];
  }
  const std::vector<int64_t> from = offsets_of(side.shape, order);
  for (std::size_t i = 0; i < from.size(); ++i) turned.values[i] = side.values[static_cast<std::size_t>(from[i])];
  turned.source = r.bench().floats(side.type, turned.shape, turned.values);
  if (!side.quantized()) return turned;
  const std::size_t size = size_of(side.codes.dtype);
  const std::vector<std::byte> bytes = r.bench().read_bytes(side.codes);
  std::vector<std::byte> moved(bytes.size());
  for (std::size_t i = 0; i < from.size(); ++i)
    std::copy_n(bytes.begin() + static_cast<long>(static_cast<std::size_t>(from[i]) * size), size, moved.begin() + static_cast<long>(i * size));
  turned.codes = r.bench().bytes(side.codes.dtype, turned.shape, moved);
  const std::vector<int64_t> scale_from = scale_offsets_of(side.shape, side.tile, order);
  const auto turn_floats = [&](const TensorView& v) {
    if (v.data == nullptr) return v;
    const std::vector<float> all = r.bench().read(v);
    std::vector<float> result(all.size());
    // Every tile is met by its elements; all of them say the same.
    const std::vector<int64_t> to = scale_offsets_of(turned.shape, turned.tile, other_axes(turned.shape, {}));
    for (std::size_t i = 0; i < to.size(); ++i) result[static_cast<std::size_t>(to[i])] = all[static_cast<std::size_t>(scale_from[i])];
    return r.bench().floats(DType::f32, v.shape, result);
  };
  turned.scale = turn_floats(side.scale);
  turned.low = turn_floats(side.low);
  turned.high = turn_floats(side.high);
  if (side.has_zero_point()) refuse("A transposed operand has a zero point, which is not read.");
  return turned;
}

std::string words_of(const Side& side) {
  if (!side.quantized()) return fmt::format("float:{}", name_of(side.type));
  return fmt::format("{}:{}", side.raw ? "raw" : "qarray", side.qtype);
}

void compare_side(Recording& r, const std::string& stem, const Side& side) {
  if (!side.quantized() || side.raw) return;
  r.expect(stem + "_scale", side.type, scales_of(side));
  if (side.compared_scale != stem + "_scale") r.compare_values(stem + "_scale", r.bench().read(side.scale));
  if (side.has_zero_point()) r.compare_integers(stem + "_zero_point", r.bench().read_integers(side.zero_point));
  if (const Shape found = r.shape_of(stem + "_q"); found != side.shape)
    refuse("The tensor \"{}_q\" is of the shape {}; its case has {}.", stem, to_string(found), to_string(side.shape));
  r.compare_codes(stem + "_q", *side.codec, side.codes);
}

namespace {

std::vector<float> decoded_tiles(Recording& r, const Side& side, DType type, const TensorView& scale) {
  const TensorView values = r.arena().allocate(type, side.shape);
  side.codec->dequantize_tiles(r.exec(), {side.codes, side.tile, scale, side.zero_point, values, true});
  return r.bench().read(values);
}

}  // namespace

std::vector<float> bare_values(Recording& r, const Side& side) {
  if (!side.has_zero_point()) return r.bench().decoded(*side.codec, side.codes);
  return decoded_tiles(r, side, DType::f32, r.bench().floats(DType::f32, side.scale.shape, std::vector<float>(static_cast<std::size_t>(side.scale.numel()), 1.0f)));
}

std::vector<float> dequantized(Recording& r, const Side& side) {
  if (!side.quantized()) return side.values;
  if (side.raw) return bare_values(r, side);
  return decoded_tiles(r, side, side.type, side.scale);
}

std::vector<double> magnitudes(Recording& r, const Side& side) {
  const std::vector<float> values = side.quantized() ? bare_values(r, side) : side.values;
  std::vector<double> sizes(values.begin(), values.end());
  if (side.quantized() && !side.raw) {
    const std::vector<float> scale = r.bench().read(side.scale);
    const std::vector<int64_t> of = scale_offsets_of(side.shape, side.tile, other_axes(side.shape, {}));
    for (std::size_t i = 0; i < sizes.size(); ++i) sizes[i] *= static_cast<double>(scale[static_cast<std::size_t>(of[i])]);
  }
  for (double& v : sizes) v = std::fabs(v);
  return sizes;
}

namespace {

/// `extent` and `stride` of an axis of whatever is counted: elements, or scales of blocks of `block` elements.
std::vector<int64_t> combinations(const Shape& shape, const TileShape& block, std::span<const int> axes) {
  TileShape stride{};
  int64_t next = 1;
  for (int a = shape.rank - 1; a >= 0; --a) {
    stride[static_cast<std::size_t>(a)] = next;
    next *= shape[a] / block[static_cast<std::size_t>(a)];
  }
  std::vector<int64_t> offsets{0};
  for (const int axis : axes) {
    const auto a = static_cast<std::size_t>(axis);
    std::vector<int64_t> finer;
    finer.reserve(offsets.size() * static_cast<std::size_t>(shape[axis]));
    for (const int64_t base : offsets)
      for (int64_t i = 0; i < shape[axis]; ++i) finer.push_back(base + i / block[a] * stride[a]);
    offsets = std::move(finer);
  }
  return offsets;
}

}  // namespace

std::vector<int64_t> offsets_of(const Shape& shape, std::span<const int> axes) { return combinations(shape, {1, 1, 1, 1}, axes); }

std::vector<int64_t> scale_offsets_of(const Shape& shape, const TileShape& tile, std::span<const int> axes) {
  return combinations(shape, tile, axes);
}

std::vector<int> other_axes(const Shape& shape, std::span<const int> a, std::span<const int> b) {
  std::vector<int> others;
  for (int axis = 0; axis < shape.rank; ++axis)
    if (std::ranges::find(a, axis) == a.end() && std::ranges::find(b, axis) == b.end()) others.push_back(axis);
  return others;
}

int64_t extent_of(const Shape& shape, std::span<const int> axes) {
  int64_t n = 1;
  for (const int a : axes) n *= shape[a];
  return n;
}

std::vector<int> axes_from(const json& list, const Shape& shape) {
  std::vector<int> axes;
  if (!list.is_array()) refuse("{} is no list of axes.", list.dump());
  for (const json& value : list) {
    const int axis = axis_number(value);
    if (axis >= shape.rank) refuse("A tensor of shape {} has no axis {}.", to_string(shape), axis);
    if (std::ranges::find(axes, axis) != axes.end()) refuse("Axis {} stands twice in {}.", axis, list.dump());
    axes.push_back(axis);
  }
  return axes;
}

}  // namespace kvant::quant::detail
