#include "quant/verify_quantizers.hpp"

#include "numerics/bf16.hpp"
#include "quant/calibrator.hpp"
#include "quant/detail/recording.hpp"
#include "quant/operand_quantizer.hpp"

#include <cmath>
#include <limits>

namespace kvant::quant {
namespace {

using detail::Bench;
using detail::Recording;
using nlohmann::json;

class QuantizerVerifier {
 public:
  QuantizerVerifier(const data::SafetensorsFile& file, const Exec& exec)
      : r_(file, exec), bench_(r_.bench()), converts_(file.metadata("kind") == "convert") {}

  VerifiedFile run() {
    r_.each_case([&](const std::string& name, const json& entry) {
      const std::string qtype = entry.at("qtype");
      const Codec& codec = r_.codec_of(qtype);
      converts_ ? verify_convert(name, entry, codec) : verify_quantize(name, entry, codec);
    });
    return r_.finish();
  }

 private:
  void convert_values(const std::string& codes, const std::string& qtype, const Codec& codec,
                      const std::vector<float>& x, DType type, bool compare_nan) {
    const Shape shape{static_cast<int64_t>(x.size())};
    TileJob job;
    job.x = bench_.floats(type, shape, x);
    job.tile = {shape[0], 1, 1, 1};
    job.codes = bench_.arena().allocate(codec.storage(), shape);
    job.scale = bench_.arena().allocate(DType::f32, {1});
    job.law = r_.law_of(qtype, codec);
    Calibration unit;  // the range that has a scale of 1
    unit.measured = false;
    unit.high = codec.bound(true);
    unit.low = -unit.high;
    quantize_tiles(bench_.exec(), bench_.arena(), codec, unit, job);
    std::vector<bool> free;
    for (const float v : x) free.push_back(std::isnan(v) && !compare_nan);
    r_.compare_codes(codes, codec, job.codes, free);
  }

  void verify_convert(const std::string& name, const json& entry, const Codec& codec) {
    const std::string qtype = entry.at("qtype");
    const float nan = std::nanf("");
    const bool has_nan = codec.storage() != DType::e2m1;
    convert_values(name + "/code", qtype, codec, r_.floats(name + "/x"), DType::f32, has_nan);
    convert_values(name + "/codeb", qtype, codec, r_.floats(name + "/xb"), DType::bf16, has_nan);
    convert_values(name + "/nan_code", qtype, codec, {nan, -nan}, DType::f32, has_nan);
    const double bound = entry.at("symmetric_bound").get<double>();
    r_.add(name + " symmetric_bound", "relative", std::fabs(static_cast<double>(codec.bound(true)) - bound) / std::fabs(bound), 0);
    if (!r_.file().has(name + "/decode")) return;
    const int64_t codes = r_.file().tensor(name + "/decode").numel();
    if (codes > int64_t{1} << 16) refuse("The tensor \"{}/decode\" has {} values; no format has so many codes.", name, codes);
    std::vector<int32_t> all(static_cast<std::size_t>(codes));
    for (std::size_t i = 0; i < all.size(); ++i) all[i] = static_cast<int32_t>(i);
    r_.compare_values(name + "/decode",
                      bench_.decoded(codec, bench_.codes(codec.storage(), {static_cast<int64_t>(all.size())}, all)));
  }

  void compare_statistics(const std::string& name, const std::string& method, const TileJob& job) {
    if (job.zero_point.data != nullptr) {
      r_.compare_values(name + "/stat_min", bench_.read(job.low));
      r_.compare_values(name + "/stat_max", bench_.read(job.high));
      return;
    }
    if (!method.starts_with("rms")) return r_.compare_values(name + "/stat_absmax", bench_.read(job.high));
    // The order of a sum is the backend's.
    const auto got = bench_.read(job.high), expected = r_.floats(name + "/stat_absmax", got.size());
    double worst = 0;
    for (std::size_t i = 0; i < got.size(); ++i) {
      if ((!std::isfinite(expected[i]) && !std::isfinite(got[i])) || detail::same(got[i], expected[i])) continue;
      const double error = std::fabs(static_cast<double>(got[i]) - static_cast<double>(expected[i])) / std::fabs(static_cast<double>(expected[i]));
      worst = std::fmax(worst, std::isnan(error) ? std::numeric_limits<double>::infinity() : error);
    }
    r_.add(name + "/stat_absmax", "relative", worst, job.x.dtype == DType::f32 ? 4e-7 : 0x1p-7);
  }

  void verify_quantize(const std::string& name, const json& entry, const Codec& codec) {
    const std::string input = entry.at("x"), qtype = entry.at("qtype"), method = entry.at("calibration");
    const DType type = r_.float_type_of(input);
    const Calibration calibration = parse_calibration(method);
    const std::vector<float> x = r_.floats(input);
    const Shape shape = r_.shape_of(input);
    Arena& arena = bench_.arena();
    TileJob job;
    job.x = bench_.floats(type, shape, x);
    job.tile = detail::recorded_tile(shape, entry);
    const int64_t scales = calibration.measured ? tile_count(shape, job.tile) : 1;
    job.codes = arena.allocate(codec.storage(), shape);
    for (TensorView* v : {&job.scale, &job.low, &job.high}) *v = arena.allocate(DType::f32, {scales});
    if (calibration.zero_point) job.zero_point = arena.allocate(DType::i32, {scales});
    job.law = r_.law_of(qtype, codec);
    quantize_tiles(bench_.exec(), arena, codec, calibration, job);
    compare_statistics(name, method, job);
    if (calibration.search != nullptr) {  // on from the recorded statistic
      job.high = bench_.floats(DType::f32, {scales}, r_.floats(name + "/stat_absmax", static_cast<std::size_t>(scales)));
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
    r_.compare_values(name + "/scale", scale);
    if (job.zero_point.data != nullptr) r_.compare_integers(name + "/zero_point", bench_.read_integers(job.zero_point));
    TileDecode decode{job.codes,
                      job.tile,
                      bench_.floats(DType::f32, job.scale.shape, scale),
                      job.zero_point,
                      bench_.arena().allocate(type, job.x.shape),
                      true};
    codec.dequantize_tiles(bench_.exec(), decode);
    const std::vector<bool> free = of_nan(codec, job, x, scale);
    r_.compare_codes(name + "/q", codec, job.codes, free);
    r_.compare_values(name + "/dq", bench_.read(decode.values), free);
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

  Recording r_;
  Bench& bench_;
  bool converts_;
};

}  // namespace

VerifiedFile verify_quantizers(const data::SafetensorsFile& file, const Exec& exec) {
  return QuantizerVerifier(file, exec).run();
}

}  // namespace kvant::quant
