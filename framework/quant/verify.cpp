#include "quant/verify.hpp"

#include "base/error.hpp"
#include "base/kokkos.hpp"
#include "kernels/transfer.hpp"
#include "numerics/bf16.hpp"
#include "quant/calibrator.hpp"
#include "quant/codec.hpp"
#include "quant/operand_quantizer.hpp"

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include <cmath>
#include <set>
#include <string_view>

namespace kvant::quant {
namespace {

using nlohmann::json;

bool same(float a, float b) {
  // The reference's processor flushes subnormal numbers to zero; the sign of a NaN, and of a zero, is the processor's.
  const auto flushed = [](float v) { return std::fabs(v) < 0x1p-126f ? 0.0f : v; };
  return (std::isnan(a) && std::isnan(b)) || flushed(a) == flushed(b);
}

/// Tensors of one case in execution memory, and back.
class Bench {
 public:
  explicit Bench(const Exec& exec) : exec_(exec), arena_("verify") {}

  Arena& arena() { return arena_; }
  const Exec& exec() const { return exec_; }

  TensorView floats(DType type, const Shape& shape, const std::vector<float>& values) {
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
  TensorView codes(DType type, const Shape& shape, const std::vector<int32_t>& values) {
    const TensorView x = arena_.allocate(type, shape);
    std::vector<std::byte> bytes(x.bytes());
    const std::size_t size = size_of(type);
    for (std::size_t i = 0; i < values.size(); ++i)
      for (std::size_t b = 0; b < size; ++b)
        bytes[i * size + b] = static_cast<std::byte>(static_cast<uint32_t>(values[i]) >> (8 * b));
    upload(exec_, bytes.data(), x);
    return x;
  }
  std::vector<float> read(const TensorView& x) {
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
  std::vector<int32_t> read_integers(const TensorView& x) {
    std::vector<int32_t> values(static_cast<std::size_t>(x.numel()));
    download(exec_, x, values.data());
    return values;
  }
  /// Decoded codes: equal values are equal codes, but for the sign of zero, which the bytes tell.
  std::vector<float> decoded(const Codec& codec, const TensorView& codes) {
    const TensorView values = arena_.allocate(DType::f32, codes.shape);
    codec.decode(exec_, codes, values);
    return read(values);
  }
  std::vector<std::byte> bytes(const TensorView& x) {
    std::vector<std::byte> all(x.bytes());
    download(exec_, x, all.data());
    return all;
  }

 private:
  const Exec& exec_;
  Arena arena_;
};

Shape shape_of(const data::StoredTensor& t) {
  if (t.shape.size() > static_cast<std::size_t>(max_rank))
    refuse("The recorded tensor \"{}\" has {} axes; up to {} are read.", t.name, t.shape.size(), max_rank);
  Shape shape;
  for (const int64_t d : t.shape) shape.dim[static_cast<std::size_t>(shape.rank++)] = d;
  return shape;
}

class Verifier {
 public:
  Verifier(const data::SafetensorsFile& file, const Exec& exec) : file_(file), bench_(exec) {
    const std::string& producer = file.metadata("producer");
    quotients_ = producer.find("algebraic simplifier off") != std::string::npos;
    round_up_ = producer.find("wheel-0.1.8") != std::string::npos;
  }

  VerifiedFile run() {
    std::vector<std::string> names;
    described("The list of cases", [&] { names = json::parse(file_.metadata("cases")).get<std::vector<std::string>>(); });
    for (const std::string& name : names) described(fmt::format("The case \"{}\"", name), [&] { verify_case(name); });
    for (const data::StoredTensor& t : file_.tensors())
      if (!seen_.contains(t.name) && !t.name.starts_with("input/")) result_.not_compared.push_back(t.name);
    return std::move(result_);
  }

 private:
  /// What the metadata says is written by anybody: what is missing there or of another type is told with the file's name.
  template <class F>
  void described(const std::string& what, F&& part) const {
    try {
      part();
    } catch (const json::exception& e) {
      refuse("{}: {} is not described as a verifiable file does: {}.", file_.path(), what, e.what());
    } catch (const Error& e) {
      if (std::string_view(e.what()).find(file_.path()) != std::string_view::npos) throw;
      refuse("{}: {}: {}", file_.path(), what, e.what());
    }
  }

  void verify_case(const std::string& name) {
    ArenaScope workspace(bench_.arena());
    const json entry = json::parse(file_.metadata("case/" + name));
    const std::string qtype = entry.at("qtype");
    const Codec* codec = builtin_codec(qtype);
    if (codec == nullptr) refuse("{}: the case \"{}\" is of the type \"{}\", which is not known.", file_.path(), name, qtype);
    file_.metadata("kind") == "convert" ? verify_convert(name, entry, *codec) : verify_quantize(name, entry, *codec);
  }

  ScaleLaw law_of(const std::string& qtype, const Codec& codec) const {
    ScaleLaw law;
    law.bound = codec.bound(true);
    law.reference_guard = law.input_arithmetic = true;
    law.true_quotient = quotients_;
    law.scale_by_reciprocal = !quotients_;
    return with_block_rule(qtype, law, true, round_up_);
  }

  void add(const std::string& tensor, const char* measure, double error, double limit) {
    result_.tensors.push_back({tensor, measure, error, limit});
  }
  /// `count`: the values that the case has there; 0 = as many as there are.
  std::vector<float> recorded(const std::string& tensor, std::size_t count = 0) {
    expect(tensor, count);
    return file_.read_floats(tensor);
  }
  std::vector<int32_t> recorded_integers(const std::string& tensor, std::size_t count) {
    expect(tensor, count);
    return file_.read_integers(tensor);
  }
  void expect(const std::string& tensor, std::size_t count) {
    seen_.insert(tensor);
    const auto found = static_cast<std::size_t>(file_.tensor(tensor).numel());
    if (count != 0 && found != count)
      refuse("{}: the tensor \"{}\" has {} values; its case has {}.", file_.path(), tensor, found, count);
  }

  void compare_values(const std::string& tensor, const std::vector<float>& got, const std::vector<bool>& free = {}) {
    const std::vector<float> expected = recorded(tensor, got.size());
    double wrong = 0;
    for (std::size_t i = 0; i < got.size(); ++i)
      wrong += !(i < free.size() && free[i]) && !same(got[i], expected[i]);
    add(tensor, "values that differ", wrong, 0);
  }

  /// Codes by their bytes; two NaN are equal. `free`: what the reference left to its backend.
  void compare_codes(const std::string& tensor, const Codec& codec, const TensorView& got,
                     const std::vector<bool>& free = {}) {
    const auto count = static_cast<std::size_t>(got.shape.numel());
    const TensorView expected = bench_.codes(codec.storage(), got.shape, recorded_integers(tensor, count));
    const auto a = bench_.bytes(got), b = bench_.bytes(expected);
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

  void convert_values(const std::string& codes, const std::string& qtype, const Codec& codec,
                      const std::vector<float>& x, DType type, bool compare_nan) {
    const Shape shape{static_cast<int64_t>(x.size())};
    TileJob job;
    job.x = bench_.floats(type, shape, x);
    job.tile = {shape[0], 1, 1, 1};
    job.codes = bench_.arena().allocate(codec.storage(), shape);
    job.scale = bench_.arena().allocate(DType::f32, {1});
    job.law = law_of(qtype, codec);
    Calibration unit;  // the range that has a scale of 1
    unit.measured = false;
    unit.high = codec.bound(true);
    unit.low = -unit.high;
    quantize_tiles(bench_.exec(), bench_.arena(), codec, unit, job);
    std::vector<bool> free;
    for (const float v : x) free.push_back(std::isnan(v) && !compare_nan);
    compare_codes(codes, codec, job.codes, free);
  }

  void verify_convert(const std::string& name, const json& entry, const Codec& codec) {
    const std::string qtype = entry.at("qtype");
    const float nan = std::nanf("");
    const bool has_nan = codec.storage() != DType::e2m1;
    convert_values(name + "/code", qtype, codec, recorded(name + "/x"), DType::f32, has_nan);
    convert_values(name + "/codeb", qtype, codec, recorded(name + "/xb"), DType::bf16, has_nan);
    convert_values(name + "/nan_code", qtype, codec, {nan, -nan}, DType::f32, has_nan);
    const double bound = entry.at("symmetric_bound").get<double>();
    add(name + " symmetric_bound", "relative", std::fabs(static_cast<double>(codec.bound(true)) - bound) / bound, 0);
    if (!file_.has(name + "/decode")) return;
    const int64_t codes = file_.tensor(name + "/decode").numel();
    if (codes > int64_t{1} << 16) refuse("{}: the tensor \"{}/decode\" has {} values; no format has so many codes.", file_.path(), name, codes);
    std::vector<int32_t> all(static_cast<std::size_t>(codes));
    for (std::size_t i = 0; i < all.size(); ++i) all[i] = static_cast<int32_t>(i);
    compare_values(name + "/decode",
                   bench_.decoded(codec, bench_.codes(codec.storage(), {static_cast<int64_t>(all.size())}, all)));
  }

  TileShape tile_of(const Shape& shape, const json& entry) const {
    std::vector<AxisTile> tiles;
    for (const json& t : entry.at("tiled_axes")) {
      AxisTile tile;
      tile.axis = t.at(0);
      if (t.at(1) == "int")
        tile.size = t.at(2);
      else
        tile.fraction = t.at(2);
      tiles.push_back(tile);
    }
    return tile_shape(shape, entry.at("channelwise_axes").get<std::vector<int>>(), tiles);
  }

  void compare_statistics(const std::string& name, const std::string& method, const TileJob& job) {
    if (job.zero_point.data != nullptr) {
      compare_values(name + "/stat_min", bench_.read(job.low));
      compare_values(name + "/stat_max", bench_.read(job.high));
      return;
    }
    if (!method.starts_with("rms")) return compare_values(name + "/stat_absmax", bench_.read(job.high));
    // The order of a sum is the backend's.
    const auto got = bench_.read(job.high), expected = recorded(name + "/stat_absmax", got.size());
    double worst = 0;
    for (std::size_t i = 0; i < got.size(); ++i) {
      if (!std::isfinite(expected[i]) && !std::isfinite(got[i])) continue;
      worst = std::fmax(worst, same(got[i], expected[i])
                                   ? 0
                                   : std::fabs(static_cast<double>(got[i]) - static_cast<double>(expected[i])) /
                                         static_cast<double>(expected[i]));
    }
    add(name + "/stat_absmax", "relative", worst, job.x.dtype == DType::f32 ? 4e-7 : 0x1p-7);
  }

  void verify_quantize(const std::string& name, const json& entry, const Codec& codec) {
    const std::string input = entry.at("x"), qtype = entry.at("qtype"), method = entry.at("calibration");
    const data::StoredTensor& stored = file_.tensor(input);
    if (stored.dtype != "F32" && stored.dtype != "BF16")
      refuse("{}: the input \"{}\" is of the type {}; F32 and BF16 are quantized.", file_.path(), input, stored.dtype);
    const Calibration calibration = parse_calibration(method);
    const std::vector<float> x = recorded(input);
    const Shape shape = shape_of(stored);
    Arena& arena = bench_.arena();
    TileJob job;
    job.x = bench_.floats(stored.dtype == "F32" ? DType::f32 : DType::bf16, shape, x);
    job.tile = tile_of(shape, entry);
    const int64_t scales = calibration.measured ? tile_count(shape, job.tile) : 1;
    job.codes = arena.allocate(codec.storage(), shape);
    for (TensorView* v : {&job.scale, &job.low, &job.high}) *v = arena.allocate(DType::f32, {scales});
    if (calibration.zero_point) job.zero_point = arena.allocate(DType::i32, {scales});
    job.law = law_of(qtype, codec);
    quantize_tiles(bench_.exec(), arena, codec, calibration, job);
    compare_statistics(name, method, job);
    if (calibration.search != nullptr) {  // on from the recorded statistic
      job.high = bench_.floats(DType::f32, {scales}, recorded(name + "/stat_absmax", static_cast<std::size_t>(scales)));
      job.statistic = Statistic::given;
      job.workspace = arena.allocate(DType::i32, {tile_workspace(job)});
      codec.quantize_tiles(bench_.exec(), job);
    }
    compare_results(name, entry, codec, job, x);
  }

  void compare_results(const std::string& name, const json& entry, const Codec& codec, TileJob job,
                       const std::vector<float>& x) {
    std::vector<float> scale = bench_.read(job.scale);
    DType type = job.x.dtype;
    if (const json& other = entry.at("scale_dtype"); !other.is_null()) {
      type = other == "bfloat16" ? DType::bf16 : DType::f32;
      if (type == DType::bf16)
        for (float& s : scale) s = to_float(to_bf16(s));
    }
    compare_values(name + "/scale", scale);
    if (job.zero_point.data != nullptr) {
      const auto got = bench_.read_integers(job.zero_point);
      const auto expected = recorded_integers(name + "/zero_point", got.size());
      double wrong = 0;
      for (std::size_t i = 0; i < got.size(); ++i) wrong += got[i] != expected[i];
      add(name + "/zero_point", "values that differ", wrong, 0);
    }
    TileDecode decode{job.codes,
                      job.tile,
                      bench_.floats(DType::f32, job.scale.shape, scale),
                      job.zero_point,
                      bench_.arena().allocate(type, job.x.shape),
                      true};
    codec.dequantize_tiles(bench_.exec(), decode);
    const std::vector<bool> free = of_nan(codec, job, x, scale);
    compare_codes(name + "/q", codec, job.codes, free);
    compare_values(name + "/dq", bench_.read(decode.values), free);
  }

  /// e2m1 has no NaN: what becomes of one is the reference's backend's choice. Where the quotient is one, that is.
  static std::vector<bool> of_nan(const Codec& codec, const TileJob& job, const std::vector<float>& x,
                                  const std::vector<float>& scale) {
    std::vector<bool> free;
    if (codec.storage() != DType::e2m1) return free;
    for (std::size_t i = 0; i < x.size(); ++i) {
      int64_t element = static_cast<int64_t>(i), tile = 0, stride = 1;
      for (int a = job.x.shape.rank - 1; a >= 0; --a) {
        const int64_t d = job.x.shape[a], t = job.tile[static_cast<std::size_t>(a)];
        tile += element % d / t * stride;
        stride *= d / t;
        element /= d;
      }
      const float s = scale.size() == 1 ? scale[0] : scale[static_cast<std::size_t>(tile)];
      free.push_back(std::isnan(x[i] / s));
    }
    return free;
  }

  const data::SafetensorsFile& file_;
  Bench bench_;
  bool quotients_ = true, round_up_ = false;
  std::set<std::string> seen_;
  VerifiedFile result_;
};

}  // namespace

bool records_quantizers(const data::SafetensorsFile& file) {
  const auto value = [&](const char* key) {
    const auto found = file.metadata().find(key);
    return found == file.metadata().end() ? std::string() : found->second;
  };
  return value("format") == "kvant-golden/1" && (value("kind") == "convert" || value("kind") == "quantize");
}

VerifiedFile verify_quantizers(const data::SafetensorsFile& file, const Exec& exec) {
  return Verifier(file, exec).run();
}

}  // namespace kvant::quant
