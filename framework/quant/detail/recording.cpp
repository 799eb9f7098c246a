#include "quant/detail/recording.hpp"

#include "base/json_depth.hpp"
#include "base/kokkos.hpp"
#include "kernels/transfer.hpp"
#include "numerics/bf16.hpp"

#include <cmath>

namespace kvant::quant::detail {

using nlohmann::json;

bool same(float a, float b) {
  // The sign of a NaN, and of a zero, is the processor's.
  const auto flushed = [](float v) { return std::fabs(v) < 0x1p-126f ? 0.0f : v; };
  return (std::isnan(a) && std::isnan(b)) || flushed(a) == flushed(b);
}

json parsed(std::string_view text) {
  constexpr int deepest = 32;
  if (const int depth = json_depth(text); depth > deepest) refuse("The text nests {} brackets; up to {} are read.", depth, deepest);
  return json::parse(text);
}

int64_t whole_number(const json& value) {
  const bool fits = value.is_number_integer() && (!value.is_number_unsigned() || value.get<uint64_t>() < uint64_t{1} << 62);
  if (!fits) refuse("{} stands where a whole number was expected.", value.dump());
  return value.get<int64_t>();
}

int axis_number(const json& value) {
  const int64_t axis = whole_number(value);
  if (axis < 0 || axis >= max_rank) refuse("A tensor has no axis {}.", axis);
  return static_cast<int>(axis);
}

AxisTile axis_tile(int axis, const json& value) {
  AxisTile tile;
  tile.axis = axis;
  if (value.is_number_integer()) {
    tile.size = whole_number(value);
    if (tile.size < 1) refuse("A tile of {} elements is none.", tile.size);
  } else {
    tile.fraction = value.get<double>();
    if (!(tile.fraction > 0 && tile.fraction <= 1)) refuse("A tile of {} of its axis is none; above 0 and up to 1.0 is.", value.dump());
  }
  return tile;
}

std::vector<AxisTile> recorded_tiles(const json& how) {
  std::vector<AxisTile> tiles;
  for (const json& t : how.at("tiled_axes")) {
    const std::string kind = t.at(1);
    if ((kind != "int" && kind != "float") || (kind == "int") != t.at(2).is_number_integer())
      refuse("The tile {} is neither [axis, \"int\", size] nor [axis, \"float\", share].", t.dump());
    tiles.push_back(axis_tile(axis_number(t.at(0)), t.at(2)));
  }
  return tiles;
}

TileShape recorded_tile(const Shape& shape, const json& how) {
  std::vector<int> channels;
  for (const json& axis : how.at("channelwise_axes")) channels.push_back(axis_number(axis));
  return tile_shape(shape, channels, recorded_tiles(how));
}

TensorView Bench::floats(DType type, const Shape& shape, const std::vector<float>& values) {
  const TensorView x = arena_.allocate(type, shape);
  if (type == DType::f32) {
    upload(exec_, values.data(), x);
  } else {
    std::vector<bf16_t> narrow;
    for (const float v : values) narrow.push_back(to_bf16(v));
    upload(exec_, narrow.data(), x);
  }
  return x;
}

TensorView Bench::integers(const Shape& shape, const std::vector<int32_t>& values) {
  const TensorView x = arena_.allocate(DType::i32, shape);
  upload(exec_, values.data(), x);
  return x;
}

TensorView Bench::codes(DType type, const Shape& shape, const std::vector<int32_t>& values) {
  const std::size_t size = size_of(type);
  std::vector<std::byte> all(values.size() * size);
  for (std::size_t i = 0; i < values.size(); ++i)
    for (std::size_t b = 0; b < size; ++b)
      all[i * size + b] = static_cast<std::byte>(static_cast<uint32_t>(values[i]) >> (8 * b));
  return bytes(type, shape, all);
}

TensorView Bench::bytes(DType type, const Shape& shape, const std::vector<std::byte>& values) {
  const TensorView x = arena_.allocate(type, shape);
  upload(exec_, values.data(), x);
  return x;
}

std::vector<float> Bench::read(const TensorView& x) {
  std::vector<float> values(static_cast<std::size_t>(x.numel()));
  if (x.dtype == DType::f32) {
    download(exec_, x, values.data());
    return values;
  }
  std::vector<bf16_t> narrow(values.size());
  download(exec_, x, narrow.data());
  for (std::size_t i = 0; i < values.size(); ++i) values[i] = to_float(narrow[i]);
  return values;
}

std::vector<int32_t> Bench::read_integers(const TensorView& x) {
  std::vector<int32_t> values(static_cast<std::size_t>(x.numel()));
  download(exec_, x, values.data());
  return values;
}

std::vector<std::byte> Bench::read_bytes(const TensorView& x) {
  std::vector<std::byte> all(x.bytes());
  download(exec_, x, all.data());
  return all;
}

std::vector<float> Bench::decoded(const Codec& codec, const TensorView& codes) {
  const TensorView values = arena_.allocate(DType::f32, codes.shape);
  codec.decode(exec_, codes, values);
  return read(values);
}

Shape shape_of(const data::StoredTensor& t) {
  if (t.shape.size() > static_cast<std::size_t>(max_rank))
    refuse("The recorded tensor \"{}\" has {} axes; up to {} are read.", t.name, t.shape.size(), max_rank);
  Shape shape;
  for (const int64_t d : t.shape) shape.dim[static_cast<std::size_t>(shape.rank++)] = d;
  return shape;
}

Recording::Recording(const data::SafetensorsFile& file, const Exec& exec) : file_(file), bench_(exec) {
  if (file.metadata("format") != "kvant-golden/1") return;  // others say how they were made in their own way
  const std::string& producer = file.metadata("producer");
  quotients_ = producer.find("algebraic simplifier off") != std::string::npos;
  round_up_ = producer.find("wheel-0.1.8") != std::string::npos;
}

void Recording::each_case(const std::function<void(const std::string&, const json&)>& verify) {
  std::vector<std::string> names;
  described("The list of cases", [&] { names = parsed(file_.metadata("cases")).get<std::vector<std::string>>(); });
  for (const std::string& name : names)
    described(fmt::format("The case \"{}\"", name), [&] {
      ArenaScope workspace(bench_.arena());
      verify(name, parsed(file_.metadata("case/" + name)));
    });
}

VerifiedFile Recording::finish() {
  for (const data::StoredTensor& t : file_.tensors())
    if (!seen_.contains(t.name) && !t.name.starts_with("input/")) result_.not_compared.push_back(t.name);
  return std::move(result_);
}

ScaleLaw Recording::law_of(const std::string& qtype, const Codec& codec) const {
  ScaleLaw law;
  law.bound = codec.bound(true);
  law.reference_guard = law.input_arithmetic = true;
  law.true_quotient = quotients_;
  law.scale_by_reciprocal = !quotients_;
  return with_block_rule(qtype, law, true, round_up_);
}

const Codec& Recording::codec_of(const std::string& qtype) const {
  const Codec* codec = builtin_codec(qtype);
  if (codec == nullptr) refuse("The type \"{}\" is not known.", qtype);
  return *codec;
}

std::string Recording::without_path(std::string_view sentence) const {
  if (!sentence.starts_with(file_.path())) return std::string(sentence);
  sentence.remove_prefix(file_.path().size());
  return sentence.starts_with(": ") ? std::string(sentence.substr(2)) : "the file" + std::string(sentence);
}

void Recording::look_at(const std::string& tensor, std::size_t count) {
  seen_.insert(tensor);
  const auto found = static_cast<std::size_t>(file_.tensor(tensor).numel());
  if (count != as_many_as_there_are && found != count)
    refuse("The tensor \"{}\" has {} values; its case has {}.", tensor, found, count);
}

std::vector<float> Recording::floats(const std::string& tensor, std::size_t count) {
  look_at(tensor, count);
  return file_.read_floats(tensor);
}

std::vector<int32_t> Recording::integers(const std::string& tensor, std::size_t count) {
  look_at(tensor, count);
  return file_.read_integers(tensor);
}

DType Recording::float_type_of(const std::string& tensor) const {
  const data::StoredTensor& t = file_.tensor(tensor);
  if (t.dtype != "F32" && t.dtype != "BF16")
    refuse("The tensor \"{}\" is of the type {}; F32 and BF16 are expected there.", tensor, t.dtype);
  return t.dtype == "F32" ? DType::f32 : DType::bf16;
}

void Recording::expect(const std::string& tensor, DType type, const Shape& shape) {
  if (const Shape found = shape_of(tensor); found != shape)
    refuse("The tensor \"{}\" is of the shape {}; its case has {}.", tensor, to_string(found), to_string(shape));
  if (const DType found = float_type_of(tensor); found != type)
    refuse("The tensor \"{}\" is of {}; its case gives {}.", tensor, name_of(found), name_of(type));
}

void Recording::add(const std::string& tensor, const char* measure, double error, double limit) {
  result_.tensors.push_back({tensor, measure, error, limit});
}

void Recording::not_offered(const std::string& name, const std::string& reason) { result_.not_offered.push_back({name, reason}); }

void Recording::pass_over(const std::string& name) {
  for (const data::StoredTensor& t : file_.tensors())
    if (t.name.starts_with(name + "/") && t.name.find('/', name.size() + 1) == std::string::npos) seen_.insert(t.name);
}

void Recording::compare_values(const std::string& tensor, const std::vector<float>& got, const std::vector<bool>& free) {
  const std::vector<float> expected = floats(tensor, got.size());
  double wrong = 0;
  for (std::size_t i = 0; i < got.size(); ++i)
    wrong += !(i < free.size() && free[i]) && !same(got[i], expected[i]);
  add(tensor, "values that differ", wrong, 0);
}

void Recording::compare_integers(const std::string& tensor, const std::vector<int32_t>& got) {
  const auto expected = integers(tensor, got.size());
  double wrong = 0;
  for (std::size_t i = 0; i < got.size(); ++i) wrong += got[i] != expected[i];
  add(tensor, "values that differ", wrong, 0);
}

void Recording::compare_codes(const std::string& tensor, const Codec& codec, const TensorView& got,
                              const std::vector<bool>& free) {
  const auto count = static_cast<std::size_t>(got.shape.numel());
  const TensorView expected = bench_.codes(codec.storage(), got.shape, integers(tensor, count));
  const auto a = bench_.read_bytes(got), b = bench_.read_bytes(expected);
  const auto va = bench_.decoded(codec, got), vb = bench_.decoded(codec, expected);
  const std::size_t size = size_of(got.dtype);
  double wrong = 0;
  for (std::size_t i = 0; i < va.size(); ++i) {
    bool equal = std::isnan(va[i]) && std::isnan(vb[i]);
    if (!equal)
      equal = std::equal(a.begin() + static_cast<long>(i * size), a.begin() + static_cast<long>((i + 1) * size),
                         b.begin() + static_cast<long>(i * size));
    wrong += !equal && !(i < free.size() && free[i]);
  }
  add(tensor, "codes that differ", wrong, 0);
}

}  // namespace kvant::quant::detail
