// Kernels of quantize_tiles.hpp, templates on the format: header kernels, instantiated in libkvant for Kvant's formats
// and in a plugin for its own. What does not know the format (shapes, ranges, scales) is compiled once, in
// quantize_tiles.cpp.
//
// A tile that fits into the cache is read from memory once: a work item measures its tiles, makes their scales and
// writes their codes. Larger ones are measured in pieces, by integer maxima in memory, and read again for their codes.
#pragma once

#include "kernels/detail/tile_span.hpp"
#include "kernels/quantize_kernel.hpp"

#include <type_traits>

namespace kvant {
namespace quantize_detail {

/// How a grid is cut into work items: `rows` rows of a band, and of its columns `cells` tiles or, where a tile is cut
/// into `cuts`, one part of a tile.
struct TilePieces {
  bool fused = false;  ///< a piece is whole tiles: one item measures and encodes
  long rows = 1, down = 1, cells = 1, cuts = 1, across = 1, width = 1;
};
TilePieces cut_tiles(const TileGrid& grid, std::size_t element, bool fused_allowed);

/// Where an item's piece lies.
struct TilePiece {
  long band, first_row, last_row;  ///< rows of the band
  long cell, begin, end;           ///< its first tile, its columns
};

KOKKOS_INLINE_FUNCTION TilePiece piece_of(const TileGrid& grid, const TilePieces& pieces, long item) {
  TilePiece p{};
  const long a = item % pieces.across, d = item / pieces.across % pieces.down;
  p.band = item / pieces.across / pieces.down;
  p.first_row = d * pieces.rows;
  p.last_row = p.first_row + pieces.rows < grid.band_rows ? p.first_row + pieces.rows : grid.band_rows;
  if (pieces.cuts > 1) {
    p.cell = a / pieces.cuts;
    p.begin = p.cell * grid.tile_cols + a % pieces.cuts * pieces.width;
    const long limit = (p.cell + 1) * grid.tile_cols;
    p.end = p.begin + pieces.width < limit ? p.begin + pieces.width : limit;
  } else {
    p.cell = a * pieces.cells;
    p.begin = p.cell * grid.tile_cols;
    p.end = p.begin + pieces.cells * grid.tile_cols < grid.cols ? p.begin + pieces.cells * grid.tile_cols : grid.cols;
  }
  return p;
}

/// A job as a kernel sees it. Built once, in quantize_tiles.cpp.
template <class T>
struct TileProblem {
  Source<T> in;
  TileGrid grid;
  TilePieces pieces;
  TileLaw law;
  Statistic statistic = Statistic::absmax;
  ElementNoise noise;
  float low_limit = 0, high_limit = 0;
  float *scale = nullptr, *low = nullptr, *high = nullptr;
  int32_t *zero_point = nullptr, *workspace = nullptr;

  KOKKOS_INLINE_FUNCTION long scales() const { return statistic == Statistic::constant ? 1 : grid.bands * grid.across; }
  KOKKOS_INLINE_FUNCTION bool careful() const { return law.law.reference_guard || noise.rounding != Rounding::nearest; }
  /// Stores a scale and its range.
  KOKKOS_INLINE_FUNCTION void store(long i, const TileScale& s) const {
    scale[i] = s.scale;
    if (zero_point != nullptr) zero_point[i] = static_cast<int32_t>(s.zero);
    if (statistic == Statistic::given) return;
    if (high != nullptr) high[i] = s.high;
    if (low != nullptr) low[i] = s.low;
  }
};

/// Checks the job and makes the problem; lowest and highest are the format's, `integer`: it can have a zero point.
struct FormatFacts {
  float lowest, highest;
  bool integer;
  std::size_t code_bytes;
};
template <class T>
TileProblem<T> tile_problem(const TileJob& job, const FormatFacts& format);
extern template TileProblem<float> tile_problem<float>(const TileJob&, const FormatFacts&);
extern template TileProblem<bf16_t> tile_problem<bf16_t>(const TileJob&, const FormatFacts&);

/// Ranges in pieces, then all scales: workspace becomes divisors and zero points.
template <class T>
void tile_scales(const Exec& exec, const TileProblem<T>& p);
extern template void tile_scales<float>(const Exec&, const TileProblem<float>&);
extern template void tile_scales<bf16_t>(const Exec&, const TileProblem<bf16_t>&);

/// Ranges of the tiles of a piece: high[k], and low[k] unless symmetric, of its k-th tile.
template <class T>
KOKKOS_INLINE_FUNCTION void measure_piece_of_tiles(const TileProblem<T>& p, const TilePiece& piece, int32_t* high,
                                                   int32_t* low) {
  const long n = piece.end - piece.begin, t = p.grid.tile_cols;
  for (long i = piece.first_row; i < piece.last_row; ++i) {
    const long r = p.grid.row_of(piece.band, i);
    const T* x = p.in.row(r) + piece.begin;
    const float factor = p.in.row_factor(r);
    const float* factors = p.in.column_factors(0);
    if (t == 1) {
      if (p.law.symmetric)
        raise_columns(x, n, factor, high);
      else
        raise_ranges(x, n, factor, high, low);
      continue;
    }
    for (long k = 0, c = 0; c < n; ++k, c += t) {
      const long run = n - c < t ? n - c : t;
      const float* f = factors == nullptr ? nullptr : factors + piece.begin + c;
      if (p.law.symmetric) {
        const int32_t m = row_magnitude(x + c, run, factor, f);
        high[k] = m > high[k] ? m : high[k];
      } else {
        const Range32 m = range_of(x + c, run, factor, f);
        high[k] = m.high > high[k] ? m.high : high[k];
        low[k] = m.low > low[k] ? m.low : low[k];
      }
    }
  }
}

/// Columns [at, at + n) of a row with one scale, or with one for each column (`step` 1).
template <class Format, class T>
KOKKOS_INLINE_FUNCTION void encode_carefully(const TileProblem<T>& p, long row, long at, long n, float factor,
                                             const float* factors, const float* scale, const float* divisor,
                                             const float* zero, long step, typename Format::storage* codes) {
  const T* x = p.in.row(row) + at;
  const bool noisy = p.noise.rounding != Rounding::nearest;
  const auto encode = [&](long c, float noise) {
    const float v = to_float(x[c]) * (factors == nullptr ? factor : factors[c]);
    codes[c] = careful_code<Format>(p.law, v, scale[c * step], divisor[c * step], zero[c * step], noise);
  };
  if constexpr (exec_is_host) {
    float drawn[noise_run];
    for (long c = 0; noisy && c < n; c += noise_run) {
      const long run = n - c < noise_run ? n - c : noise_run;
      p.noise.draw_run(row, at + c, run, drawn);
      for (long i = 0; i < run; ++i) encode(c + i, drawn[i]);
    }
    for (long c = noisy ? n : 0; c < n; ++c) encode(c, 0.0f);
  } else {
    Random4 block{};
    int64_t number = -1;
    for (long c = 0; c < n; ++c) encode(c, noisy ? p.noise.draw(row, at + c, block, number) : 0.0f);
  }
}

template <class Format, class T>
KOKKOS_INLINE_FUNCTION void encode_shifted(const T* __restrict x, long n, float factor, const float* factors,
                                           const float* __restrict divisor, const float* __restrict zero, long step,
                                           typename Format::storage* __restrict codes) {
  for (long c = 0; c < n; ++c) {
    const float v = to_float(x[c]) * (factors == nullptr ? factor : factors[c]);
    codes[c] = Format::encode(v * divisor[c * step] + zero[c * step]);
  }
}

/// Codes of a piece; scale, divisor, zero of its k-th tile (a constant range has one for all: `many` is false).
template <class Format, class T>
KOKKOS_INLINE_FUNCTION void encode_piece(const TileProblem<T>& p, const TilePiece& piece, const float* scale,
                                         const float* divisor, const float* zero, bool many,
                                         typename Format::storage* codes) {
  const long n = piece.end - piece.begin, t = p.grid.tile_cols, run_of = t == 1 ? n : t;
  const bool measured = p.statistic == Statistic::absmax &&
                        (p.law.law.rule == ScaleRule::exact || p.law.law.rule == ScaleRule::power_of_two_up);
  for (long i = piece.first_row; i < piece.last_row; ++i) {
    const long r = p.grid.row_of(piece.band, i);
    const float factor = p.in.row_factor(r);
    for (long k = 0, c = 0; c < n; ++k, c += run_of) {
      const long run = n - c < run_of ? n - c : run_of, at = piece.begin + c, which = many ? k : 0;
      const long step = many && t == 1 ? 1 : 0;
      const T* x = p.in.row(r) + at;
      const float* factors = p.in.column_factors(0) == nullptr ? nullptr : p.in.column_factors(0) + at;
      typename Format::storage* out = codes + r * p.grid.cols + at;
      if (p.careful())
        encode_carefully<Format>(p, r, at, run, factor, factors, scale + which, divisor + which, zero + which, step,
                                 out);
      else if (!p.law.symmetric)
        encode_shifted<Format>(x, run, factor, factors, divisor + which, zero + which, step, out);
      else if (step == 0 && is_nan_bits(magnitude_bits(divisor[which])))
        zero_codes<Format>(out, run);
      else
        encode_row<Format>(p.law.law, measured, x, run, factor, factors, divisor[which], step == 0 ? nullptr : divisor,
                           out);
    }
  }
}

/// One item of a fused job: ranges, scales, codes.
template <class Format, class T>
KOKKOS_INLINE_FUNCTION void quantize_piece(const TileProblem<T>& p, long item, typename Format::storage* codes) {
  constexpr long most = columns_of_tile;
  const TilePiece piece = piece_of(p.grid, p.pieces, item);
  const long cells = (piece.end - piece.begin + p.grid.tile_cols - 1) / p.grid.tile_cols;
  int32_t high[most], low[most];
  float scale[most], divisor[most], zero[most];
  for (long k = 0; k < cells; ++k) high[k] = low[k] = 0;
  measure_piece_of_tiles(p, piece, high, low);
  for (long k = 0; k < cells; ++k) {
    const TileScale s = scale_of_range(p.law, {high[k], low[k]});
    p.store(piece.band * p.grid.across + piece.cell + k, s);
    scale[k] = s.scale;
    divisor[k] = s.divisor;
    zero[k] = s.zero;
  }
  encode_piece<Format>(p, piece, scale, divisor, zero, true, codes);
}

/// One item of a job whose scales are known.
template <class Format, class T>
KOKKOS_INLINE_FUNCTION void encode_known(const TileProblem<T>& p, long item, typename Format::storage* codes) {
  const TilePiece piece = piece_of(p.grid, p.pieces, item);
  const bool many = p.statistic != Statistic::constant;
  const long first = many ? piece.band * p.grid.across + piece.cell : 0;
  const auto* divisors = reinterpret_cast<const float*>(p.workspace);
  encode_piece<Format>(p, piece, p.scale + first, divisors + first, divisors + p.scales() + first, many, codes);
}

/// A constant range: where a value is not finite, the scale of the tensor is poisoned.
template <class T>
KOKKOS_INLINE_FUNCTION void poison_constant(const TileProblem<T>& p, long item) {
  const TilePiece piece = piece_of(p.grid, p.pieces, item);
  for (long i = piece.first_row; i < piece.last_row; ++i) {
    const long r = p.grid.row_of(piece.band, i);
    const float* factors = p.in.column_factors(0);
    const int32_t m = row_magnitude(p.in.row(r) + piece.begin, piece.end - piece.begin, p.in.row_factor(r),
                                    factors == nullptr ? nullptr : factors + piece.begin);
    if (m >= static_cast<int32_t>(infinity_bits)) Kokkos::atomic_store(p.scale, float_of(0x7fc00000u));
  }
}

template <class Format, class T>
void quantize_tiles_of(const Exec& exec, const TileJob& job) {
  using Code = typename Format::storage;
  // A format whose codes are their own values is an integer.
  const bool integer =
      Format::decode(Code{0}) == 0.0f && Format::decode(Code{1}) == 1.0f && Format::decode(Code{2}) == 2.0f;
  const TileProblem<T> p = tile_problem<T>(
      job, {[] {
              if constexpr (requires { Format::lowest; })
                return static_cast<float>(Format::lowest);
              else
                return -static_cast<float>(Format::max_finite);
            }(),
            static_cast<float>(Format::max_finite), integer, sizeof(typename Format::storage)});
  auto* codes = static_cast<typename Format::storage*>(job.codes.data);
  const long items = p.grid.bands * p.pieces.down * p.pieces.across;
  if (p.pieces.fused) {
    Kokkos::parallel_for(
        "kvant::quantize_tiles", Range(exec.space, 0, items),
        KOKKOS_LAMBDA(const long item) { quantize_piece<Format>(p, item, codes); });
    return;
  }
  tile_scales<T>(exec, p);
  Kokkos::parallel_for(
      "kvant::encode_tiles", Range(exec.space, 0, items), KOKKOS_LAMBDA(const long item) {
        encode_known<Format>(p, item, codes);
        if (p.statistic == Statistic::constant && !p.law.law.reference_guard) poison_constant(p, item);
      });
}

/// Checks a decoding; true where one scale serves all.
bool check_decode(const TileDecode& job);

template <class Format, class V>
void dequantize_tiles_of(const Exec& exec, const TileDecode& job) {
  const bool one = check_decode(job);
  const TileGrid grid = make_grid(job.codes.shape, job.tile, true);
  const auto* codes = static_cast<const typename Format::storage*>(job.codes.data);
  const auto* zero = static_cast<const int32_t*>(job.zero_point.data);
  const float* scale = job.scale.as<float>();
  V* values = job.values.as<V>();
  TileLaw law;
  law.bf16 = job.value_arithmetic && std::is_same_v<V, bf16_t>;
  Kokkos::parallel_for(
      "kvant::dequantize_tiles", Range(exec.space, 0, job.codes.numel()), KOKKOS_LAMBDA(const long i) {
        const long r = i / grid.cols, c = i % grid.cols;
        const long s = one ? 0 : grid.band_of(r) * grid.across + c / grid.tile_cols;
        float v = law.rounded(Format::decode(codes[i]));
        if (zero != nullptr) v = law.rounded(v - law.rounded(static_cast<float>(zero[s])));
        values[i] = from_float<V>(v * law.rounded(scale[s]));
      });
}

}  // namespace quantize_detail

/// Runs a job. Throws kvant::Error for shapes, types and laws that do not fit together.
template <NumericFormat Format>
void quantize_tiles(const Exec& exec, const TileJob& job) {
  if (job.x.dtype == DType::bf16)
    quantize_detail::quantize_tiles_of<Format, bf16_t>(exec, job);
  else
    quantize_detail::quantize_tiles_of<Format, float>(exec, job);
}

template <NumericFormat Format>
void dequantize_tiles(const Exec& exec, const TileDecode& job) {
  if (job.values.dtype == DType::bf16)
    quantize_detail::dequantize_tiles_of<Format, bf16_t>(exec, job);
  else
    quantize_detail::dequantize_tiles_of<Format, float>(exec, job);
}

}  // namespace kvant
