// Operands of recorded products (quantized weights and activations that were stored): scales, zero points and codes are
// what their inputs quantize to, bit for bit. verify_test.cpp has the recorded quantizations themselves.
#include "data/safetensors.hpp"
#include "quant/calibrator.hpp"
#include "quant/codec.hpp"
#include "quant/operand_quantizer.hpp"
#include "support/device_buffer.hpp"
#include "tensor/arena.hpp"

#include <catch2/catch_test_macros.hpp>
#include <nlohmann/json.hpp>

#include <cmath>

namespace {

using namespace kvant;
using namespace kvant::quant;
using kvant::test::DeviceBuffer;
using nlohmann::json;

TileShape tile_of(const Shape& shape, const json& how) {
  std::vector<AxisTile> tiles;
  for (const json& t : how.at("tiled_axes")) {
    AxisTile tile;
    tile.axis = t[0];
    if (t[1] == "int")
      tile.size = t[2];
    else
      tile.fraction = t[2];
    tiles.push_back(tile);
  }
  return tile_shape(shape, how.at("channelwise_axes").get<std::vector<int>>(), tiles);
}

void compare(const data::SafetensorsFile& file, const std::string& input, const json& how, const std::string& stem) {
  const auto& stored = file.tensor(input);
  const Codec& codec = *builtin_codec(how.at("qtype").get<std::string>());
  Shape shape;
  for (const int64_t d : stored.shape) shape.dim[static_cast<std::size_t>(shape.rank++)] = d;
  const DeviceBuffer x(stored.dtype == "F32" ? DType::f32 : DType::bf16, shape, file.read_floats(input));
  const Calibration calibration = parse_calibration(how.at("calibration").get<std::string>());
  REQUIRE(calibration.zero_point == file.has(stem + "_zero_point"));
  TileJob job;
  job.x = x;
  job.tile = tile_of(shape, how);
  const int64_t scales = tile_count(shape, job.tile);
  const DeviceBuffer codes(codec.storage(), shape), scale(DType::f32, {scales}), zero(DType::i32, {scales});
  job.codes = codes;
  job.scale = scale;
  if (calibration.zero_point) job.zero_point = zero;
  job.law.bound = codec.bound(true);
  job.law.true_quotient = job.law.reference_guard = job.law.input_arithmetic = true;
  job.law = with_block_rule(how.at("qtype").get<std::string>(), job.law, true);
  Arena arena("stored operands");
  quantize_tiles(Exec{}, arena, codec, calibration, job);
  Kokkos::fence();

  CHECK(scale.floats() == file.read_floats(stem + "_scale"));
  const auto expected = file.read_integers(stem + "_q");
  const auto got = codes.integers();
  REQUIRE(got.size() == expected.size());
  int wrong = 0;
  for (std::size_t i = 0; i < got.size(); ++i)
    wrong += static_cast<uint8_t>(got[i]) != static_cast<uint8_t>(expected[i]);
  CHECK(wrong == 0);
  if (calibration.zero_point) CHECK(zero.integers() == file.read_integers(stem + "_zero_point"));
}

}  // namespace

TEST_CASE("stored operands of recorded products are what their inputs quantize to", "[quant][golden]") {
  const data::SafetensorsFile file(KVANT_SOURCE_DIR "/tests/reference/data/qwix_qarray_matmul.safetensors");
  const auto cases = json::parse(file.metadata("cases")).get<std::vector<std::string>>();
  CHECK(cases.size() == 45);
  int operands = 0;
  for (const std::string& name : cases) {
    const json entry = json::parse(file.metadata("case/" + name));
    for (const std::string side : {"lhs", "rhs"}) {
      const json& how = entry.at(side + "_how");
      if (how.is_null()) continue;
      INFO(name << " " << side);
      compare(file, entry.at(side), how, name + "/" + side);
      ++operands;
    }
  }
  CHECK(operands > 70);
}
