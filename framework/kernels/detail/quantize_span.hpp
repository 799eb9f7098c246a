// Spans of a row: maxima, scales and codes of contiguous values. What the kernels of quantize_kernel.hpp are made of.
#pragma once

#include "base/kokkos.hpp"
#include "kernels/quantize.hpp"
#include "kernels/isa/noise_leaf.hpp"
#include "numerics/stochastic.hpp"
#include "numerics/bf16.hpp"
#include "numerics/format.hpp"

namespace kvant {
namespace quantize_detail {

/// Groups of rows, as a kernel sees them.
struct RowGroups {
  const int32_t* offsets = nullptr;
  long count = 1;
  long uniform = 0;

  /// Group of a row, `count` for a row that belongs to none.
  KOKKOS_INLINE_FUNCTION long of(long row) const {
    if (uniform > 0) return row / uniform;
    if (offsets == nullptr) return 0;
    long low = 0, high = count + 1;  // the first offset above `row` lies in (low, high]: empty groups are skipped
    while (high - low > 1) {
      const long middle = (low + high) / 2;
      if (offsets[middle] <= row)
        low = middle;
      else
        high = middle;
    }
    return low;
  }
};

/// The matrix and its multiplier. Element (r,c) stands for x[r,c] · row_factor(r) or x[r,c] · column_factors(g)[c].
template <class T>
struct Source {
  const T* x = nullptr;
  long stride = 0, rows = 0, cols = 0;
  const float* multiplier = nullptr;
  Along along = Along::tensor;
  bool grouped_multiplier = false;  ///< [G,C]
  RowGroups groups;

  KOKKOS_INLINE_FUNCTION const T* row(long r) const { return x + r * stride; }
  KOKKOS_INLINE_FUNCTION float row_factor(long r) const {
    return multiplier == nullptr || along == Along::column ? 1.0f : multiplier[along == Along::row ? r : 0];
  }
  KOKKOS_INLINE_FUNCTION const float* column_factors(long group) const {
    return along != Along::column ? nullptr : multiplier + (grouped_multiplier ? group * cols : 0);
  }
};

/// Largest bits of |v| of one row.
template <class T>
KOKKOS_INLINE_FUNCTION int32_t row_magnitude(const T* x, long n, float factor, const float* factors) {
  int32_t largest = 0;
  if (factors != nullptr) {
    for (long c = 0; c < n; ++c) {
      const auto m = static_cast<int32_t>(magnitude_bits(to_float(x[c]) * factors[c]));
      largest = m > largest ? m : largest;
    }
  } else {
    for (long c = 0; c < n; ++c) {
      const auto m = static_cast<int32_t>(magnitude_bits(to_float(x[c]) * factor));
      largest = m > largest ? m : largest;
    }
  }
  return largest;
}

/// largest[c] = max(largest[c], |x[c] · factor|) as bits.
template <class T>
KOKKOS_INLINE_FUNCTION void raise_columns(const T* x, long n, float factor, int32_t* largest) {
  for (long c = 0; c < n; ++c) {
    const auto m = static_cast<int32_t>(magnitude_bits(to_float(x[c]) * factor));
    largest[c] = m > largest[c] ? m : largest[c];
  }
}

/// Both at once: maxima of |x·column_factor| by column, and of |x·row_factor(s)| returned for the row.
template <class T>
KOKKOS_INLINE_FUNCTION int32_t raise_both(const T* __restrict x, long n, float row_factor,
                                          const float* __restrict row_factors, float column_factor,
                                          int32_t* __restrict largest) {
  int32_t row = 0;
  if (row_factors != nullptr) {
    for (long c = 0; c < n; ++c) {
      const float value = to_float(x[c]);
      const auto by_row = static_cast<int32_t>(magnitude_bits(value * row_factors[c]));
      const auto by_column = static_cast<int32_t>(magnitude_bits(value * column_factor));
      row = by_row > row ? by_row : row;
      largest[c] = by_column > largest[c] ? by_column : largest[c];
    }
  } else {
    for (long c = 0; c < n; ++c) {
      const float value = to_float(x[c]);
      const auto by_row = static_cast<int32_t>(magnitude_bits(value * row_factor));
      const auto by_column = static_cast<int32_t>(magnitude_bits(value * column_factor));
      row = by_row > row ? by_row : row;
      largest[c] = by_column > largest[c] ? by_column : largest[c];
    }
  }
  return row;
}

/// Combines the maxima of a chunk into those of the matrix.
KOKKOS_INLINE_FUNCTION void raise_shared(const int32_t* largest, long n, int32_t* shared) {
  for (long c = 0; c < n; ++c)
    if (largest[c] > Kokkos::atomic_load(shared + c)) Kokkos::atomic_max(shared + c, largest[c]);
}

/// What v is divided by, in the form that the law wants: a scale that poisons the product for a magnitude that is not
/// finite.
struct ScalePair {
  float scale, divisor;  ///< divisor: 1/s to multiply by, or s itself when the law asks for the quotient
  bool finite;
};

KOKKOS_INLINE_FUNCTION float calibrated(const ScaleLaw& law, int32_t magnitude) {
  const float m = float_of(static_cast<uint32_t>(magnitude));
  return law.factor == 1.0f ? m : m * law.factor;
}

KOKKOS_INLINE_FUNCTION ScalePair scale_of(const ScaleLaw& law, int32_t magnitude) {
  if (magnitude >= static_cast<int32_t>(infinity_bits)) return {float_of(0x7fc00000u), float_of(0x7fc00000u), false};
  const float m = calibrated(law, magnitude);
  float s = law.scale_by_reciprocal ? m * (1.0f / law.bound) : m / law.bound;
  if (law.reference_guard) {
    if (s < 0x1p-63f) s = 1.0f;
  } else if (magnitude == 0) {
    s = 1.0f;
  } else {
    s = s < 0x1p-126f ? 0x1p-126f : s;
    s = s > 0x1.fffffep127f ? 0x1.fffffep127f : s;
  }
  return {s, law.true_quotient ? s : 1.0f / s, true};
}

/// What is done with v and its divisor.
enum class Encoding {
  in_range,  ///< v · (1/s) is known to round to a code: nothing to clamp
  clamped,   ///< v · (1/s), clamped
  quotient,  ///< v / s, clamped
};

/// Codes of n values: v = x·factor, or x·factors[c]; divided by one number, or by one for each column.
template <class Format, Encoding encoding, class T, class Factor, class Divisor>
KOKKOS_INLINE_FUNCTION void encode_span(const T* __restrict x, long n, Factor factor, Divisor divisor, float limit,
                                        typename Format::storage* __restrict codes) {
  const uint32_t limit_bits = bits_of(limit);
  for (long c = 0; c < n; ++c) {
    const float v = to_float(x[c]) * factor(c);
    if constexpr (encoding == Encoding::in_range) {
      codes[c] = Format::encode_in_range(v * divisor(c));
    } else {
      const float ratio = encoding == Encoding::quotient ? v / divisor(c) : v * divisor(c);
      const uint32_t magnitude = magnitude_bits(ratio);
      const uint32_t clamped = magnitude < limit_bits ? magnitude : limit_bits;
      codes[c] = Format::encode(float_of(clamped | (bits_of(ratio) & 0x80000000u)));
    }
  }
}

struct OneFactor {
  float value;
  KOKKOS_INLINE_FUNCTION float operator()(long) const { return value; }
};
struct ManyFactors {
  const float* __restrict value;
  KOKKOS_INLINE_FUNCTION float operator()(long c) const { return value[c]; }
};

template <class Format, Encoding encoding, class T>
KOKKOS_INLINE_FUNCTION void encode_row_as(const T* x, long n, float factor, const float* factors, float divisor,
                                          const float* divisors, float limit, typename Format::storage* codes) {
  if (divisors != nullptr)
    encode_span<Format, encoding>(x, n, OneFactor{factor}, ManyFactors{divisors}, limit, codes);
  else if (factors != nullptr)
    encode_span<Format, encoding>(x, n, ManyFactors{factors}, OneFactor{divisor}, limit, codes);
  else
    encode_span<Format, encoding>(x, n, OneFactor{factor}, OneFactor{divisor}, limit, codes);
}

template <class Format>
concept HasInRange = requires(float v) {
  Format::encode_in_range(v);
};

/// A measured scale with a factor of at least 1 maps every value of its cell to at most `bound`, up to rounding.
template <class Format>
KOKKOS_INLINE_FUNCTION bool stays_in_range(const ScaleLaw& law, bool measured) {
  return HasInRange<Format> && measured && law.factor >= 1.0f && law.bound <= static_cast<float>(Format::max_finite) &&
         !law.true_quotient && law.limit >= law.bound;
}

/// `factors` and `divisors` are not given together: no job has a multiplier and a scale along columns.
template <class Format, class T>
KOKKOS_INLINE_FUNCTION void encode_row(const ScaleLaw& law, bool measured, const T* x, long n, float factor,
                                       const float* factors, float divisor, const float* divisors,
                                       typename Format::storage* codes) {
  if constexpr (HasInRange<Format>) {
    if (stays_in_range<Format>(law, measured)) {
      encode_row_as<Format, Encoding::in_range>(x, n, factor, factors, divisor, divisors, law.limit, codes);
      return;
    }
  }
  if (law.true_quotient)
    encode_row_as<Format, Encoding::quotient>(x, n, factor, factors, divisor, divisors, law.limit, codes);
  else
    encode_row_as<Format, Encoding::clamped>(x, n, factor, factors, divisor, divisors, law.limit, codes);
}

/// Noise as a kernel sees it: element (r, c) is number (row_ids[r], or r) · row_step + c · col_step + first.
struct ElementNoise {
  Rounding rounding = Rounding::nearest;
  uint64_t seed = 0, stream = 0;
  int64_t first = 0, row_step = 0, col_step = 1;
  const int32_t* row_ids = nullptr;
  const float* given = nullptr;
  long given_row = 0, given_col = 0;  ///< strides
  NoiseLeaf leaf = nullptr;           ///< of a host

  KOKKOS_INLINE_FUNCTION int64_t element(long row, long c) const {
    return (row_ids == nullptr ? first + row * row_step : row_ids[row] * row_step) + c * col_step;
  }
  /// `block` holds the four draws that `number` says, and the next ones when this element is not among them.
  KOKKOS_INLINE_FUNCTION float draw(long row, long c, Random4& block, int64_t& number) const {
    if (given != nullptr) return given[row * given_row + c * given_col];
    const int64_t e = element(row, c);
    if (e / 4 != number) {
      number = e / 4;
      block = philox(seed, stream, static_cast<uint64_t>(number));
    }
    return noise_of(rounding, block.word[e % 4]);
  }

  /// Host: the noise of columns [c, c + n).
  void draw_run(long row, long c, long n, float* out) const {
    if (given == nullptr && col_step != 0) {
      leaf(rounding == Rounding::low_bit_uniform, seed, stream, static_cast<uint64_t>(element(row, c)), n, out);
      return;
    }
    Random4 block{};
    int64_t number = -1;
    for (long i = 0; i < n; ++i) out[i] = draw(row, c + i, block, number);
  }
};

/// Columns that a host draws noise for at once.
inline constexpr long noise_run = 512;

inline ElementNoise noise_of_job(const NoiseJob& job, int64_t cols) {
  ElementNoise n;
  n.rounding = job.rounding;
  n.seed = job.seed;
  n.stream = job.stream;
  n.row_step = job.by_row ? 1 : cols;
  n.col_step = job.by_row ? 0 : 1;
  n.first = job.first_row * n.row_step;
  n.row_ids = static_cast<const int32_t*>(job.row_ids.data);
  n.given = static_cast<const float*>(job.given.data);
  if constexpr (exec_is_host) n.leaf = noise_leaf();
  if (n.given != nullptr) {
    n.given_row = job.given.shape[0] == 1 ? 0 : job.given.shape[1];
    n.given_col = job.given.shape[1] == 1 ? 0 : 1;
  }
  return n;
}

/// Throws kvant::Error where noise does not fit a tensor of this shape, or the format has none.
void check_noise(const NoiseJob& job, const Shape& shape);

KOKKOS_INLINE_FUNCTION float clamped_ratio(const ScaleLaw& law, float v, float divisor) {
  float ratio = law.true_quotient ? v / divisor : v * divisor;
  ratio = ratio > law.limit ? law.limit : ratio;
  return ratio < -law.limit ? -law.limit : ratio;
}

/// Host: the ratios that encode_row_noisy rounds, compiled once for all formats (quantize.cpp).
void clamped_ratios(const ScaleLaw& law, const float* x, long n, float factor, const float* factors, float divisor,
                    const float* divisors, float* ratio);
void clamped_ratios(const ScaleLaw& law, const bf16_t* x, long n, float factor, const float* factors, float divisor,
                    const float* divisors, float* ratio);

/// encode_row with stochastic rounding.
template <class Format, class T>
KOKKOS_INLINE_FUNCTION void encode_row_noisy(const ScaleLaw& law, const ElementNoise& noise, long row, const T* x,
                                             long n, float factor, const float* factors, float divisor,
                                             const float* divisors, typename Format::storage* codes) {
  if constexpr (exec_is_host) {
    float ratio[noise_run], drawn[noise_run];
    for (long c = 0; c < n; c += noise_run) {
      const long run = n - c < noise_run ? n - c : noise_run;
      noise.draw_run(row, c, run, drawn);
      clamped_ratios(law, x + c, run, factor, factors == nullptr ? nullptr : factors + c, divisor,
                     divisors == nullptr ? nullptr : divisors + c, ratio);
      for (long i = 0; i < run; ++i) codes[c + i] = encode_with_noise<Format>(ratio[i], drawn[i]);
    }
  } else {
    Random4 block{};
    int64_t number = -1;
    for (long c = 0; c < n; ++c) {
      const float v = to_float(x[c]) * (factors == nullptr ? factor : factors[c]);
      codes[c] = encode_with_noise<Format>(clamped_ratio(law, v, divisors == nullptr ? divisor : divisors[c]),
                                           noise.draw(row, c, block, number));
    }
  }
}

template <class Format>
KOKKOS_INLINE_FUNCTION void zero_codes(typename Format::storage* codes, long n) {
  const typename Format::storage zero = Format::encode(0.0f);
  for (long c = 0; c < n; ++c) codes[c] = zero;
}

}  // namespace quantize_detail
}  // namespace kvant
