// What the kernels of quantize_tiles_kernel.hpp are made of: how a tensor falls into tiles, the range of a tile, its
// scale, its codes.
#pragma once

#include "kernels/detail/quantize_span.hpp"
#include "kernels/quantize_tiles.hpp"
#include "numerics/e8m0.hpp"
#include "numerics/float.hpp"

namespace kvant {
namespace quantize_detail {

/// A tensor as rows and columns: the last axis (neighbouring axes that tile as one are one), and the axes before it. A
/// band is the rows that share their scales; scale number = band · across + column / tile_cols.
struct TileGrid {
  int leading = 0;
  long extent[max_rank] = {}, tile[max_rank] = {}, stride[max_rank] = {};
  long rows = 1, cols = 1, tile_cols = 1, bands = 1, band_rows = 1, across = 1;

  KOKKOS_INLINE_FUNCTION long row_of(long band, long i) const {
    if (leading == 0) return 0;
    if (leading == 1) return band * band_rows + i;
    long row = 0;
    for (int a = leading - 1; a >= 0; --a) {
      const long many = extent[a] / tile[a];
      row += (band % many * tile[a] + i % tile[a]) * stride[a];
      band /= many;
      i /= tile[a];
    }
    return row;
  }
  /// i of row_of(band_of(row), i).
  KOKKOS_INLINE_FUNCTION long within_band(long row) const {
    long i = 0;
    for (int a = 0; a < leading; ++a) {
      i = i * tile[a] + row / stride[a] % tile[a];
      row %= stride[a];
    }
    return i;
  }
  KOKKOS_INLINE_FUNCTION long band_of(long row) const {
    long band = 0;
    for (int a = 0; a < leading; ++a) {
      band = band * (extent[a] / tile[a]) + row / stride[a] / tile[a];
      row %= stride[a];
    }
    return band;
  }
};

/// `merge`: neighbouring axes may become one where their tiles allow it.
TileGrid make_grid(const Shape& shape, const TileShape& tile, bool merge);

/// Range of a tile as bits: the largest v and the largest -v, at least 0. As integers they order like the values, NaN
/// above all, whatever the order of the operands.
struct Range32 {
  int32_t high = 0, low = 0;
};

template <class T>
KOKKOS_INLINE_FUNCTION Range32 range_of(const T* x, long n, float factor, const float* factors) {
  Range32 range;
  for (long c = 0; c < n; ++c) {
    const uint32_t bits = bits_of(to_float(x[c]) * (factors == nullptr ? factor : factors[c]));
    const auto up = static_cast<int32_t>(bits), down = static_cast<int32_t>(bits ^ 0x80000000u);
    range.high = up > range.high ? up : range.high;
    range.low = down > range.low ? down : range.low;
  }
  return range;
}

template <class T>
KOKKOS_INLINE_FUNCTION void raise_ranges(const T* x, long n, float factor, int32_t* high, int32_t* low) {
  for (long c = 0; c < n; ++c) {
    const uint32_t bits = bits_of(to_float(x[c]) * factor);
    const auto up = static_cast<int32_t>(bits), down = static_cast<int32_t>(bits ^ 0x80000000u);
    high[c] = up > high[c] ? up : high[c];
    low[c] = down > low[c] ? down : low[c];
  }
}

/// What a kernel needs of the law, besides the tensors.
struct TileLaw {
  ScaleLaw law;
  bool symmetric = true;
  bool bf16 = false;       ///< results are rounded to bfloat16
  bool one_scale = false;  ///< of the whole tensor: XLA divides by it
  float lowest = 0, highest = 0;
  const float* outer = nullptr;

  KOKKOS_INLINE_FUNCTION float rounded(float v) const { return bf16 ? to_float(to_bf16(v)) : v; }
};

struct TileScale {
  float scale, divisor, zero;
  float low, high;  ///< the calibrated range
  bool finite;
};

KOKKOS_INLINE_FUNCTION float float_of_signed(int32_t bits) { return float_of(static_cast<uint32_t>(bits)); }

KOKKOS_INLINE_FUNCTION float ruled_scale_of_reference(const TileLaw& t, float s) {
  if (t.law.rule == ScaleRule::power_of_two_biased)
    return float_of(bits_of(to_float(to_bf16(t.rounded(s * t.rounded(t.law.rule_factor))))) & infinity_bits);
  if (t.law.rule == ScaleRule::e4m3) return E4M3fn::decode(E4M3fn::encode(s));
  if (t.law.rule == ScaleRule::power_of_two_up) return power_of_two_above(s);
  return s;
}

/// The reference's arithmetic, operation by operation.
KOKKOS_INLINE_FUNCTION TileScale tile_scale_of_reference(const TileLaw& t, float low, float high) {
  TileScale r{};
  r.finite = true;
  if (t.symmetric) {
    const float bound = t.rounded(t.law.bound);
    r.high = high;
    r.low = -high;
    r.scale = t.rounded(t.law.scale_by_reciprocal ? high * (1.0f / bound) : high / bound);
  } else {
    const float levels = t.rounded(t.highest - t.lowest);
    r.high = high;
    r.low = low;
    r.scale =
        t.rounded(t.law.scale_by_reciprocal ? t.rounded(high - low) * (1.0f / levels) : t.rounded(high - low) / levels);
  }
  if (r.scale < 0x1p-63f) r.scale = 1.0f;
  r.scale = ruled_scale_of_reference(t, r.scale);
  if (!t.symmetric) {
    const float z = t.rounded(t.lowest - t.rounded(r.low / r.scale));  // rounded to an integer in the codes' range
    const float magnitude = float_of(magnitude_bits(z));
    const float whole = magnitude < 0x1p22f ? (z + 12582912.0f) - 12582912.0f : z;
    r.zero = is_nan_bits(magnitude_bits(z)) ? 0.0f
             : whole < t.lowest             ? t.lowest
             : whole > t.highest            ? t.highest
                                            : whole;
  }
  r.divisor = r.scale;
  return r;
}

KOKKOS_INLINE_FUNCTION float ruled_scale(const TileLaw& t, float s, float m) {
  switch (t.law.rule) {
    case ScaleRule::power_of_two_up:
      return power_of_two_above(s);
    case ScaleRule::power_of_two_down: {
      const float p = power_of_two_below(m) / power_of_two_below(t.law.bound);
      return p < 0x1p-126f ? 0x1p-126f : p;
    }
    case ScaleRule::power_of_two_biased: {
      const float p = power_of_two_below(to_float(to_bf16(s * t.law.rule_factor)));
      return p > 0x1p127f ? 0x1p127f : p;
    }
    case ScaleRule::e4m3: {
      const float outer = t.outer == nullptr ? 1.0f : *t.outer;
      const float part = E4M3fn::decode(E4M3fn::encode(s / outer));
      const float whole = (part < 0x1p-9f ? 0x1p-9f : part) * outer;
      return whole < 0x1p-126f ? 0x1p-126f : whole;
    }
    default:
      return s;
  }
}

/// Kvant's arithmetic (ScaleLaw): a range that is not finite poisons the scale.
KOKKOS_INLINE_FUNCTION TileScale tile_scale(const TileLaw& t, float low, float high) {
  if (t.law.reference_guard) return tile_scale_of_reference(t, low, high);
  const float nan = float_of(0x7fc00000u);
  if (magnitude_bits(high) >= infinity_bits || magnitude_bits(low) >= infinity_bits)
    return {nan, nan, 0.0f, low, high, false};
  TileScale r{1.0f, 1.0f, 0.0f, low, high, true};
  // Halves, so that the width of [-3e38, 3e38] is a number.
  const float m = t.symmetric ? high : 0.5f * high - 0.5f * low;
  if (m > 0.0f) {
    float s = m / (t.symmetric ? t.law.bound : 0.5f * (t.highest - t.lowest));
    s = s < 0x1p-126f ? 0x1p-126f : s > 0x1.fffffep127f ? 0x1.fffffep127f : s;
    r.scale = ruled_scale(t, s, m);
  }
  if (!t.symmetric) {
    const float z = t.lowest - low / r.scale;
    const float whole = (z + 12582912.0f) - 12582912.0f;  // |z| is at most highest - lowest, up to rounding
    r.zero = whole < t.lowest ? t.lowest : whole > t.highest ? t.highest : whole;
  }
  r.divisor = t.law.true_quotient ? r.scale : 1.0f / r.scale;
  return r;
}

/// The calibrated range from the measured one.
KOKKOS_INLINE_FUNCTION TileScale scale_of_range(const TileLaw& t, Range32 measured) {
  const float factor = t.law.reference_guard ? t.rounded(t.law.factor) : t.law.factor;
  float high = float_of_signed(t.symmetric && measured.low > measured.high ? measured.low : measured.high);
  float low = t.symmetric ? -high : -float_of_signed(measured.low);
  if (is_nan_bits(magnitude_bits(high)) || is_nan_bits(magnitude_bits(low))) high = low = float_of(0x7fc00000u);
  if (factor != 1.0f) {
    high = t.rounded(high * factor);
    low = t.rounded(low * factor);
    if (!t.law.reference_guard) {  // the largest float times 1.5 is a range, not an infinite value
      const bool was_finite =
          measured.high < static_cast<int32_t>(infinity_bits) && measured.low < static_cast<int32_t>(infinity_bits);
      if (was_finite && high > 0x1.fffffep127f) high = 0x1.fffffep127f;
      if (was_finite && low < -0x1.fffffep127f) low = -0x1.fffffep127f;
    }
  }
  return tile_scale(t, low, high);
}

template <class Format>
concept HasReferenceCode = requires(float v) {
  Format::encode_as_reference(v);
};

/// Codes with a zero point, noise, or the reference's arithmetic: one value after the other.
template <class Format>
KOKKOS_INLINE_FUNCTION typename Format::storage careful_code(const TileLaw& t, float v, float scale, float divisor,
                                                             float zero, float noise) {
  float ratio = 0;
  if (t.law.reference_guard) {
    const bool product = !t.law.true_quotient && !t.one_scale;
    ratio = t.rounded(product ? v * (1.0f / scale) : v / scale);
  } else {
    ratio = t.law.true_quotient ? v / scale : v * divisor;
  }
  if (!t.symmetric) ratio = t.rounded(ratio + zero);
  if (t.symmetric && t.law.limit < 3e38f) {
    ratio = ratio > t.law.limit ? t.law.limit : ratio;
    ratio = ratio < -t.law.limit ? -t.law.limit : ratio;
  }
  if (noise != 0.0f) return encode_with_noise<Format>(ratio, noise);
  if constexpr (HasReferenceCode<Format>) {
    if (t.law.reference_guard) return Format::encode_as_reference(ratio);
  }
  return Format::encode(ratio);
}

}  // namespace quantize_detail
}  // namespace kvant
