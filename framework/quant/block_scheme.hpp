// BlockScheme: a working scheme from a number format alone. It quantizes what fp8_full and int8_full do (dense and
// expert products, with MTP, logits and router as the flags say), forward and both backward arms, with calibrations
// from the flags. A whole plugin:
//
//   #include "plugin/plugin.hpp"
//   #include "quant/block_scheme.hpp"
//   namespace {
//   struct MyFormat {                       // numerics/format.hpp says what is asked of it
//     using storage = uint8_t;
//     static constexpr float max_finite = …;
//     KVANT_FUNCTION static storage encode(float value) { … }
//     KVANT_FUNCTION static float decode(storage code) { … }
//   };
//   }
//   KVANT_PLUGIN(kvant::plugin::provide<kvant::quant::BlockScheme<MyFormat>>("my_format"))
#pragma once

#include "quant/format_codec.hpp"
#include "quant/scheme.hpp"

namespace kvant::quant {

/// The qtype is the name under which the scheme was registered.
template <NumericFormat Format>
class BlockScheme : public Scheme {
 public:
  std::string description() const override {
    return "a number format of a plugin's own, in every product that fp8_full covers";
  }

  std::vector<Rule> rules(const config::QuantSettings& settings) const override {
    return full_rules(settings, {name(), name(), name(), name()});
  }
  const Codec* codec(std::string_view qtype) const override { return qtype == name() ? &codec_ : nullptr; }

 private:
  FormatCodec<Format> codec_;
};

}  // namespace kvant::quant
