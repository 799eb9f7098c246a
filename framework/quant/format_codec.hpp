// FormatCodec: makes a codec of a number format, that is of a struct with storage, max_finite, encode and decode. The
// kernels are instantiated where this template is: in libkvant for Kvant's own formats, in the plugin for the plugin's.
#pragma once

#include "kernels/quantize_kernel.hpp"
#include "numerics/float.hpp"
#include "numerics/int.hpp"
#include "quant/codec.hpp"

#include <concepts>
#include <limits>

namespace kvant::quant {

template <NumericFormat Format>
class FormatCodec final : public Codec {
  using Storage = typename Format::storage;
  static_assert(sizeof(Storage) == 1, "A format of quantized products stores one byte per code.");

 public:
  FormatCodec() : storage_(find_storage()) {}

  DType storage() const override { return storage_; }
  bool readable_by_gemm() const override { return storage_ != DType::u8; }
  float bound(bool half_step) const override {
    return static_cast<float>(Format::max_finite) + (half_step && storage_ == DType::i8 ? 0.5f : 0.0f);
  }
  void quantize(const Exec& exec, const QuantizeJob& job) const override { kvant::quantize<Format>(exec, job); }
  void quantize_pair(const Exec& exec, const QuantizeJob& rows, const QuantizeJob& columns) const override {
    kvant::quantize_pair<Format>(exec, rows, columns);
  }
  void decode(const Exec& exec, const TensorView& codes, const TensorView& values) const override {
    kvant::decode<Format>(exec, codes, values);
  }

 private:
  /// A format whose every code is its own value is an integer, and gets integer arithmetic, whoever wrote it.
  static bool is_integer() {
    if (!std::signed_integral<Storage>) return false;
    for (int code = -128; code < 128; ++code)
      if (Format::decode(static_cast<Storage>(code)) != static_cast<float>(code)) return false;
    return true;
  }
  static DType find_storage() {
    if constexpr (std::same_as<Format, E4M3fn>)
      return DType::e4m3fn;
    else if constexpr (std::same_as<Format, E5M2>)
      return DType::e5m2;
    else
      return is_integer() ? DType::i8 : DType::u8;
  }

  DType storage_;
};

}  // namespace kvant::quant
