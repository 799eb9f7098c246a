// FormatCodec: makes a codec of a number format, that is of a struct with storage, max_finite, encode and decode. The
// kernels are instantiated where this template is: in libkvant for Kvant's own formats, in the plugin for the plugin's.
#pragma once

#include "kernels/clipping_search_kernel.hpp"
#include "kernels/quantize_kernel.hpp"
#include "kernels/quantize_tiles_kernel.hpp"
#include "kernels/scaled_gemm.hpp"
#include "numerics/formats.hpp"
#include "quant/codec.hpp"

#include <concepts>
#include <cstdint>

namespace kvant::quant {

template <NumericFormat Format>
class FormatCodec final : public Codec {
  using Storage = typename Format::storage;
  static_assert(sizeof(Storage) <= 2, "A format of quantized products stores one or two bytes per code.");

 public:
  FormatCodec() : integer_(is_integer()), storage_(find_storage(integer_)) {}

  DType storage() const override { return storage_; }
  int code_bits() const override { return bits(); }
  bool readable_by_gemm() const override { return gemm_reads(storage_); }
  float bound(bool reference) const override {
    const auto largest = static_cast<float>(Format::max_finite);
    if (!reference) return largest;
    if constexpr (requires { Format::reference_bound; }) return static_cast<float>(Format::reference_bound);
    return integer_ ? largest + 0.5f : largest;
  }
  bool integer() const override { return integer_; }

  void quantize(const Exec& exec, const QuantizeJob& job) const override {
    check(job.codes);
    kvant::quantize<Format>(exec, job);
  }
  void quantize_pair(const Exec& exec, const QuantizeJob& rows, const QuantizeJob& columns) const override {
    check(rows.codes);
    check(columns.codes);
    kvant::quantize_pair<Format>(exec, rows, columns);
  }
  void decode(const Exec& exec, const TensorView& codes, const TensorView& values) const override {
    check(codes);
    kvant::decode<Format>(exec, codes, values);
  }
  void quantize_tiles(const Exec& exec, const TileJob& job) const override {
    check(job.codes);
    kvant::quantize_tiles<Format>(exec, job);
  }
  void dequantize_tiles(const Exec& exec, const TileDecode& job) const override {
    check(job.codes);
    kvant::dequantize_tiles<Format>(exec, job);
  }
  void search_clipping(const Exec& exec, const ClippingSearch& job) const override {
    kvant::search_clipping<Format>(exec, job);
  }

 private:
  /// The bytes of one format are never read as another's: OCP and FNUZ differ by a factor of two in 252 of 256 codes.
  void check(const TensorView& codes) const {
    require(codes.dtype == storage_,
            "A tensor of {} was given as codes of {}; they are decoded by their own format first.",
            name_of(codes.dtype), name_of(storage_));
  }

  static constexpr int bits() {
    if constexpr (requires { Format::code_bits; })
      return Format::code_bits;
    else
      return 8 * static_cast<int>(sizeof(Storage));
  }
  /// A format whose every code is its own value is an integer, and gets integer arithmetic, whoever wrote it.
  static bool is_integer() {
    const long count = 1l << bits(), first = std::signed_integral<Storage> ? -count / 2 : 0;
    for (long code = first; code < first + count; ++code)
      if (Format::decode(static_cast<Storage>(code)) != static_cast<float>(code)) return false;
    return true;
  }
  static DType find_storage(bool integer) {
    if constexpr (std::same_as<Format, E4M3fn>) return DType::e4m3fn;
    if constexpr (std::same_as<Format, E5M2>) return DType::e5m2;
    if constexpr (std::same_as<Format, E4M3>) return DType::e4m3;
    if constexpr (std::same_as<Format, E3M4>) return DType::e3m4;
    if constexpr (std::same_as<Format, E4M3fnuz>) return DType::e4m3fnuz;
    if constexpr (std::same_as<Format, E5M2fnuz>) return DType::e5m2fnuz;
    if constexpr (std::same_as<Format, E4M3b11fnuz>) return DType::e4m3b11fnuz;
    if constexpr (std::same_as<Format, E2M1>) return DType::e2m1;
    if constexpr (std::same_as<Format, Nf4>) return DType::nf4;
    if constexpr (std::same_as<Format, F16>) return DType::f16;
    if constexpr (sizeof(Storage) == 2) return std::signed_integral<Storage> ? DType::i16 : DType::u16;
    // Unsigned codes below 128 are the same bytes as signed ones.
    return integer && (std::signed_integral<Storage> || bits() < 8) ? DType::i8 : DType::u8;
  }

  bool integer_;
  DType storage_;
};

}  // namespace kvant::quant
