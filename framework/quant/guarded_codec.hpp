// The codec of a plugin, with its calls guarded: what it throws in a step becomes a sentence that names plugin and file.
#pragma once

#include "plugin/guard.hpp"
#include "quant/codec.hpp"

#include <utility>

namespace kvant::quant {

class GuardedCodec final : public Codec {
  template <class Function>
  decltype(auto) guarded(std::string_view doing, Function&& function) const {
    return plugin::guard(origin_, doing, std::forward<Function>(function));
  }

  const Codec& codec_;
  plugin::Origin origin_;

 public:
  /// `codec` belongs to the plugin and outlives this.
  GuardedCodec(const Codec& codec, plugin::Origin origin) : codec_(codec), origin_(std::move(origin)) {}

  DType storage() const override {
    return guarded("telling how codes are stored", [&] { return codec_.storage(); });
  }
  int code_bits() const override {
    return guarded("telling the bits of a code", [&] { return codec_.code_bits(); });
  }
  bool readable_by_gemm() const override {
    return guarded("telling who reads its codes", [&] { return codec_.readable_by_gemm(); });
  }
  float bound(bool reference) const override {
    return guarded("telling its range", [&] { return codec_.bound(reference); });
  }
  bool integer() const override {
    return guarded("telling whether codes are integers", [&] { return codec_.integer(); });
  }
  void quantize(const Exec& exec, const QuantizeJob& job) const override {
    guarded("quantizing", [&] { codec_.quantize(exec, job); });
  }
  void quantize_pair(const Exec& exec, const QuantizeJob& rows, const QuantizeJob& columns) const override {
    guarded("quantizing", [&] { codec_.quantize_pair(exec, rows, columns); });
  }
  void decode(const Exec& exec, const TensorView& codes, const TensorView& values) const override {
    guarded("decoding", [&] { codec_.decode(exec, codes, values); });
  }
  void quantize_tiles(const Exec& exec, const TileJob& job) const override {
    guarded("quantizing tiles", [&] { codec_.quantize_tiles(exec, job); });
  }
  void dequantize_tiles(const Exec& exec, const TileDecode& job) const override {
    guarded("decoding tiles", [&] { codec_.dequantize_tiles(exec, job); });
  }
  void search_clipping(const Exec& exec, const ClippingSearch& job) const override {
    guarded("searching a range", [&] { codec_.search_clipping(exec, job); });
  }
};

}  // namespace kvant::quant
