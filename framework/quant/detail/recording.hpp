// A file of recorded values while it is being verified: what it says of its cases, read with suspicion, its tensors, and
// what came of comparing with them. Shared by the readers of all kinds (quant/verify_*.cpp).
#pragma once

#include "base/error.hpp"
#include "data/safetensors.hpp"
#include "kernels/quantize_tiles.hpp"
#include "quant/codec.hpp"
#include "quant/verify.hpp"
#include "tensor/arena.hpp"

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include <functional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

namespace kvant::quant::detail {

/// Tensors of one case in execution memory, and back.
class Bench {
 public:
  explicit Bench(const Exec& exec) : exec_(exec), arena_("verify") {}

  Arena& arena() { return arena_; }
  const Exec& exec() const { return exec_; }

  TensorView floats(DType type, const Shape& shape, const std::vector<float>& values);
  TensorView integers(const Shape& shape, const std::vector<int32_t>& values);
  TensorView codes(DType type, const Shape& shape, const std::vector<int32_t>& values);
  TensorView bytes(DType type, const Shape& shape, const std::vector<std::byte>& values);
  std::vector<float> read(const TensorView& x);
  std::vector<int32_t> read_integers(const TensorView& x);
  std::vector<std::byte> read_bytes(const TensorView& x);
  /// Decoded codes: equal values are equal codes, but for the sign of zero, which the bytes tell.
  std::vector<float> decoded(const Codec& codec, const TensorView& codes);

 private:
  const Exec& exec_;
  Arena arena_;
};

/// Equal as recorded values are: two NaN are, and subnormal numbers are zero (the reference's processor flushes them).
bool same(float a, float b);

/// Of a text that anybody may have written: throws UsageError where brackets nest deeper than any description does.
nlohmann::json parsed(std::string_view text);

/// A whole number of a case's description; throws UsageError for anything else, and for one that no size can be.
int64_t whole_number(const nlohmann::json& value);
/// An axis: a whole number that a tensor may have as one.
int axis_number(const nlohmann::json& value);
/// A tile as the reference writes it: a whole number is its size, a fraction its share of the axis.
AxisTile axis_tile(int axis, const nlohmann::json& value);
/// The tiles of tiled_axes, [[axis, "int" | "float", size or share] …].
std::vector<AxisTile> recorded_tiles(const nlohmann::json& how);
/// channelwise_axes and tiled_axes as the tile of a tensor.
TileShape recorded_tile(const Shape& shape, const nlohmann::json& how);

/// Of up to max_rank axes; throws UsageError for more.
Shape shape_of(const data::StoredTensor& tensor);

class Recording {
 public:
  Recording(const data::SafetensorsFile& file, const Exec& exec);

  const data::SafetensorsFile& file() const { return file_; }
  Bench& bench() { return bench_; }
  const Exec& exec() const { return bench_.exec(); }
  Arena& arena() { return bench_.arena(); }

  /// Calls `verify` for each name of the metadata `cases`, with the JSON of `case/<name>`. What memory it takes goes back.
  void each_case(const std::function<void(const std::string& name, const nlohmann::json& entry)>& verify);
  /// What came of it; tensors of the file that nobody looked at are named.
  VerifiedFile finish();

  /// What the metadata says is written by anybody: what is missing there or of another type is told with the names of file and case.
  template <class F>
  void described(const std::string& what, F&& part) const {
    try {
      part();
    } catch (const nlohmann::json::exception& e) {
      refuse("{}: {} is not described as a verifiable file does: {}.", file_.path(), what, e.what());
    } catch (const Error& e) {
      refuse("{}: {}: {}", file_.path(), what, without_path(e.what()));
    }
  }

  /// How the file was made: IEEE quotients or products with rounded reciprocals, the reference's guard, range and rounding.
  ScaleLaw law_of(const std::string& qtype, const Codec& codec) const;
  /// Throws UsageError for a type that is not known.
  const Codec& codec_of(const std::string& qtype) const;

  static constexpr std::size_t as_many_as_there_are = ~std::size_t{0};
  /// `count`: the values that the case has there; throws UsageError for a tensor of others.
  std::vector<float> floats(const std::string& tensor, std::size_t count = as_many_as_there_are);
  std::vector<int32_t> integers(const std::string& tensor, std::size_t count);
  Shape shape_of(const std::string& tensor) const { return detail::shape_of(file_.tensor(tensor)); }
  /// F32 or BF16; throws UsageError for another type.
  DType float_type_of(const std::string& tensor) const;
  /// Throws UsageError unless the tensor is of this type and shape.
  void expect(const std::string& tensor, DType type, const Shape& shape);

  void add(const std::string& tensor, const char* measure, double error, double limit);
  void not_offered(const std::string& name, const std::string& reason);
  /// Takes every tensor of a case as looked at.
  void pass_over(const std::string& name);
  void compare_values(const std::string& tensor, const std::vector<float>& got, const std::vector<bool>& free = {});
  void compare_integers(const std::string& tensor, const std::vector<int32_t>& got);
  /// Codes by their bytes; two NaN are equal. `free`: what the reference left to its backend.
  void compare_codes(const std::string& tensor, const Codec& codec, const TensorView& got,
                     const std::vector<bool>& free = {});

 private:
  void look_at(const std::string& tensor, std::size_t count);
  /// A sentence about the file, which is to stand behind its name.
  std::string without_path(std::string_view sentence) const;

  const data::SafetensorsFile& file_;
  Bench bench_;
  bool quotients_ = true, round_up_ = false;
  std::set<std::string> seen_;
  VerifiedFile result_;
};

}  // namespace kvant::quant::detail
