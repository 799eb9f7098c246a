// Schemes and calibrators, each of which throws in one of its entries or answers nonsense: what a user meets of them is a sentence.
#include "plugin/plugin.hpp"
#include "quant/block_scheme.hpp"
#include "quant/calibrator.hpp"

#include <limits>
#include <stdexcept>

namespace {

using namespace kvant;

using Format = Float<4, 3, FloatVariant::fn>;

/// A working codec but for one entry.
class QuietCodec : public quant::Codec {
 public:
  DType storage() const override { return codec_.storage(); }
  int code_bits() const override { return codec_.code_bits(); }
  bool readable_by_gemm() const override { return codec_.readable_by_gemm(); }
  float bound(bool reference) const override { return codec_.bound(reference); }
  bool integer() const override { return codec_.integer(); }
  void quantize(const Exec&, const QuantizeJob&) const override { throw 3; }
  void quantize_pair(const Exec&, const QuantizeJob&, const QuantizeJob&) const override { throw 3; }
  void decode(const Exec& e, const TensorView& c, const TensorView& v) const override { codec_.decode(e, c, v); }
  void quantize_tiles(const Exec& e, const TileJob& j) const override { codec_.quantize_tiles(e, j); }
  void dequantize_tiles(const Exec& e, const TileDecode& j) const override { codec_.dequantize_tiles(e, j); }
  void search_clipping(const Exec& e, const ClippingSearch& j) const override { codec_.search_clipping(e, j); }

 private:
  quant::FormatCodec<Format> codec_;
};

struct Rules : quant::BlockScheme<Format> {
  std::vector<quant::Rule> rules(const config::QuantSettings&) const override { throw 3; }
};
struct Configure : quant::BlockScheme<Format> {
  void configure(config::Section&) override { throw std::runtime_error("the table is not sorted"); }
};
struct Codec : quant::BlockScheme<Format> {
  const quant::Codec* codec(std::string_view) const override { throw 3; }
};
struct Quantize : quant::BlockScheme<Format> {
  const quant::Codec* codec(std::string_view qtype) const override { return qtype == name() ? &quiet_ : nullptr; }
  QuietCodec quiet_;
};
struct Calibrate : quant::Calibrator {
  std::string description() const override { return "throws"; }
  quant::Calibration calibrate(std::span<const float> arguments) const override {
    if (arguments.empty()) throw 3;
    quant::Calibration c;
    if (arguments.size() == 1) c.factor = arguments[0];  // whatever it is
    else c.measured = false, c.low = arguments[0], c.high = arguments[1];
    return c;
  }
};
struct Search : quant::Calibrator {
  struct Throws : quant::RangeSearch {
    void find(const Exec&, const quant::RangeJob&) const override { throw 3; }
  };
  std::string description() const override { return "searches and throws"; }
  quant::Calibration calibrate(std::span<const float>) const override {
    quant::Calibration c;
    c.search = std::make_shared<Throws>();
    return c;
  }
};

}  // namespace

KVANT_PLUGIN(kvant::plugin::provide<Rules>("test_rules"), kvant::plugin::provide<Configure>("test_configure"),
             kvant::plugin::provide<Codec>("test_codec"), kvant::plugin::provide<Quantize>("test_quantize"),
             kvant::plugin::provide<Calibrate>("test_calibrate"), kvant::plugin::provide<Search>("test_search"))
