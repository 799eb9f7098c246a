// Kernels of quantize.hpp, templates on the format: header kernels, instantiated in libkvant for Kvant's formats and in
// a plugin for its own. What does not know the format (maxima, scales) is compiled once, in quantize.cpp.
//
// Maxima are maxima of the bits of |v| as integers: no order of the operands, no thread count and no NaN changes them,
// so they may be combined by integer atomics. Rows are shared in chunks whose size depends on the shape alone.
#pragma once

#include "kernels/detail/quantize_span.hpp"

#include <algorithm>

namespace kvant {
namespace quantize_detail {

/// Columns whose maxima a work item holds at once: on a host 4 KiB of a row, on a device few (they live in its
/// registers).
inline constexpr long columns_of_tile = exec_is_host ? 1024 : 8;

/// Rows that one work item takes: about 256 KiB of them, so that a second look at them finds them in the cache.
inline long rows_of_chunk(long cols, std::size_t element) {
  const long bytes = std::max<long>(1, cols * static_cast<long>(element));
  return std::clamp<long>((256l << 10) / bytes, 4, 32);
}

// ---- compiled once, in quantize.cpp ----
void check(const QuantizeJob& job);
Source<float> source_f32(const QuantizeJob& job);
Source<bf16_t> source_bf16(const QuantizeJob& job);
/// True when `scale` holds one row of numbers for each group.
bool grouped_scale(const QuantizeJob& job);
void reset_magnitudes(const Exec& exec, const QuantizeJob& job);
/// Maxima along columns or of the tensor, into job.magnitudes (which were reset).
void measure(const Exec& exec, const QuantizeJob& job);
/// scale and clip from the magnitudes, which become the divisors (f32 in the same place).
void finish_scales(const Exec& exec, const QuantizeJob& job);
void store_fixed_scale(const Exec& exec, const QuantizeJob& job);

template <class T>
Source<T> source_of(const QuantizeJob& job) {
  if constexpr (std::is_same_v<T, float>)
    return source_f32(job);
  else
    return source_bf16(job);
}

/// Where the results of a job go.
template <class Format>
struct Target {
  typename Format::storage* codes;
  float* scale;
  float* clip;
  int32_t* magnitudes;
  ScaleLaw law;
  ElementNoise noise;
  explicit Target(const QuantizeJob& job)
      : codes(static_cast<typename Format::storage*>(job.codes.data)),
        scale(static_cast<float*>(job.scale.data)),
        clip(static_cast<float*>(job.clip.data)),
        magnitudes(static_cast<int32_t*>(job.magnitudes.data)),
        law(job.law),
        noise(noise_of_job(job.noise, job.x.cols())) {}

  KOKKOS_INLINE_FUNCTION bool noisy() const { return noise.rounding != Rounding::nearest; }
};

/// One row: its scale from its magnitude, and its codes.
template <class Format, class T>
KOKKOS_INLINE_FUNCTION void finish_row(const Source<T>& in, const Target<Format>& out, long r, const float* factors,
                                       int32_t magnitude) {
  const ScalePair pair = scale_of(out.law, magnitude);
  out.scale[r] = pair.scale;
  if (out.clip != nullptr) out.clip[r] = calibrated(out.law, magnitude);
  if (pair.finite && out.noisy()) {
    encode_row_noisy<Format>(out.law, out.noise, r, in.row(r), in.cols, in.row_factor(r), factors, pair.divisor,
                             nullptr, out.codes + r * in.cols);
  } else if (pair.finite) {
    encode_row<Format>(out.law, true, in.row(r), in.cols, in.row_factor(r), factors, pair.divisor, nullptr,
                       out.codes + r * in.cols);
  } else {
    zero_codes<Format>(out.codes + r * in.cols, in.cols);
  }
}

/// A row without a group, where a group's numbers would be needed: nothing.
template <class Format, class T>
KOKKOS_INLINE_FUNCTION bool finish_orphan(const Source<T>& in, const Target<Format>& out, long r, long group) {
  if (group < in.groups.count) return false;
  out.scale[r] = 1.0f;
  if (out.clip != nullptr) out.clip[r] = 0.0f;
  zero_codes<Format>(out.codes + r * in.cols, in.cols);
  return true;
}

template <class Format, class T>
void quantize_rows(const Exec& exec, const QuantizeJob& job) {
  const Source<T> in = source_of<T>(job);
  const Target<Format> out(job);
  const long chunk = rows_of_chunk(in.cols, sizeof(T));
  Kokkos::parallel_for(
      "kvant::quantize_rows", Range(exec.space, 0, (in.rows + chunk - 1) / chunk), KOKKOS_LAMBDA(const long item) {
        const long end = (item + 1) * chunk < in.rows ? (item + 1) * chunk : in.rows;
        for (long r = item * chunk; r < end; ++r) {
          const long group = in.grouped_multiplier ? in.groups.of(r) : 0;
          if (in.grouped_multiplier && finish_orphan(in, out, r, group)) continue;
          const float* factors = in.column_factors(group);
          finish_row(in, out, r, factors, row_magnitude(in.row(r), in.cols, in.row_factor(r), factors));
        }
      });
}

/// Codes of a matrix whose scales are known: one number for the tensor (`constant`, or the first of the magnitudes'
/// place), or one for each column. With a constant the row is looked at once more, for a NaN or an infinity.
template <class Format, class T>
void encode_matrix(const Exec& exec, const QuantizeJob& job) {
  const Source<T> in = source_of<T>(job);
  const Target<Format> out(job);
  const bool by_column = job.scale_along == Along::column;
  const bool per_group = by_column && grouped_scale(job);
  const bool grouped = per_group || in.grouped_multiplier;
  const bool constant = job.fixed_scale > 0, measured = !constant && !job.ranges_given;
  const float constant_divisor = constant ? (job.law.true_quotient ? job.fixed_scale : 1.0f / job.fixed_scale) : 0.0f;
  const long chunk = rows_of_chunk(in.cols, sizeof(T));
  Kokkos::parallel_for(
      "kvant::quantize_encode", Range(exec.space, 0, (in.rows + chunk - 1) / chunk), KOKKOS_LAMBDA(const long item) {
        const auto* divisors = reinterpret_cast<const float*>(out.magnitudes);
        const long end = (item + 1) * chunk < in.rows ? (item + 1) * chunk : in.rows;
        for (long r = item * chunk; r < end; ++r) {
          const long group = grouped ? in.groups.of(r) : 0;
          if (grouped && group >= in.groups.count) {
            zero_codes<Format>(out.codes + r * in.cols, in.cols);
            continue;
          }
          const float* factors = in.column_factors(group);
          if (constant &&
              row_magnitude(in.row(r), in.cols, in.row_factor(r), factors) >= static_cast<int32_t>(infinity_bits))
            Kokkos::atomic_store(out.scale, float_of(0x7fc00000u));  // whoever stores it stores the same
          const float divisor = constant || by_column ? constant_divisor : divisors[0];
          const float* many = by_column ? divisors + (per_group ? group * in.cols : 0) : nullptr;
          if (out.noisy())
            encode_row_noisy<Format>(out.law, out.noise, r, in.row(r), in.cols, in.row_factor(r), factors, divisor,
                                     many, out.codes + r * in.cols);
          else
            encode_row<Format>(out.law, measured, in.row(r), in.cols, in.row_factor(r), factors, divisor, many,
                               out.codes + r * in.cols);
        }
      });
}

/// Both sweeps of a chunk of rows while it is in the cache: maxima of rows and columns, then the codes by row.
template <class Format, class T>
KOKKOS_INLINE_FUNCTION void pair_chunk(const Source<T>& in, const Source<T>& by_column, bool grouped_columns,
                                       const Target<Format>& out, int32_t* column_magnitudes, long begin, long end) {
  constexpr long tile = columns_of_tile, most_rows = 32;
  int32_t rows[most_rows];
  for (long r = begin; r < end; ++r) rows[r - begin] = 0;
  for (long c = 0; c < in.cols; c += tile) {
    const long n = in.cols - c < tile ? in.cols - c : tile;
    int32_t largest[tile];
    for (long i = 0; i < n; ++i) largest[i] = 0;
    long current = grouped_columns ? by_column.groups.of(begin) : 0;
    for (long r = begin; r < end; ++r) {
      const long group = grouped_columns ? by_column.groups.of(r) : 0;
      if (group != current) {
        raise_shared(largest, n, column_magnitudes + current * in.cols + c);
        for (long i = 0; i < n; ++i) largest[i] = 0;
        current = group;
      }
      // A row of no group raises no column (its maxima land in `largest`, which nobody shares any more) and, where a
      // group's numbers would be its factors, no row either.
      const long row_group = in.grouped_multiplier ? in.groups.of(r) : 0;
      const bool orphan = in.grouped_multiplier && row_group >= in.groups.count;
      const float* factors = orphan ? nullptr : in.column_factors(row_group);
      const int32_t m = raise_both(in.row(r) + c, n, orphan ? 0.0f : in.row_factor(r),
                                   factors == nullptr ? nullptr : factors + c, by_column.row_factor(r), largest);
      rows[r - begin] = m > rows[r - begin] ? m : rows[r - begin];
    }
    if (!grouped_columns || current < by_column.groups.count)
      raise_shared(largest, n, column_magnitudes + current * in.cols + c);
  }
  for (long r = begin; r < end; ++r) {
    const long group = in.grouped_multiplier ? in.groups.of(r) : 0;
    if (in.grouped_multiplier && finish_orphan(in, out, r, group)) continue;
    finish_row(in, out, r, in.column_factors(group), rows[r - begin]);
  }
}

template <class Format, class T>
void rows_and_column_magnitudes(const Exec& exec, const QuantizeJob& rows, const QuantizeJob& columns) {
  const Source<T> in = source_of<T>(rows), by_column = source_of<T>(columns);
  const Target<Format> out(rows);
  const bool grouped = grouped_scale(columns);
  auto* magnitudes = static_cast<int32_t*>(columns.magnitudes.data);
  const long chunk = rows_of_chunk(in.cols, sizeof(T));
  Kokkos::parallel_for(
      "kvant::quantize_rows_measure_columns", Range(exec.space, 0, (in.rows + chunk - 1) / chunk),
      KOKKOS_LAMBDA(const long item) {
        const long end = (item + 1) * chunk < in.rows ? (item + 1) * chunk : in.rows;
        pair_chunk<Format>(in, by_column, grouped, out, magnitudes, item * chunk, end);
      });
}

template <class Format>
void encode_all(const Exec& exec, const QuantizeJob& job) {
  if (job.x.dtype == DType::f32)
    encode_matrix<Format, float>(exec, job);
  else
    encode_matrix<Format, bf16_t>(exec, job);
}

}  // namespace quantize_detail

/// Runs a job. Throws kvant::Error for shapes and types that do not fit together.
template <NumericFormat Format>
void quantize(const Exec& exec, const QuantizeJob& job) {
  namespace detail = quantize_detail;
  detail::check(job);
  if (job.x.numel() == 0 && job.scale.numel() == 0) return;
  if (job.fixed_scale > 0) {
    detail::store_fixed_scale(exec, job);
    detail::encode_all<Format>(exec, job);
  } else if (job.scale_along == Along::row) {
    if (job.x.dtype == DType::f32)
      detail::quantize_rows<Format, float>(exec, job);
    else
      detail::quantize_rows<Format, bf16_t>(exec, job);
  } else {
    if (!job.ranges_given) {
      detail::reset_magnitudes(exec, job);
      detail::measure(exec, job);
    }
    detail::finish_scales(exec, job);
    detail::encode_all<Format>(exec, job);
  }
}

/// Two jobs on the same x, by row and by column. On a host x is read twice in all (a chunk that is in the cache gives
/// both kinds of maxima and the codes by row); elsewhere, and where one of the two is fixed or of the whole tensor,
/// they run one after the other.
template <NumericFormat Format>
void quantize_pair(const Exec& exec, const QuantizeJob& rows, const QuantizeJob& columns) {
  namespace detail = quantize_detail;
  const bool together = exec_is_host && rows.scale_along == Along::row && columns.scale_along == Along::column &&
                        rows.fixed_scale == 0 && columns.fixed_scale == 0 && !columns.ranges_given && rows.x.data == columns.x.data;
  if (!together) {
    quantize<Format>(exec, rows);
    quantize<Format>(exec, columns);
    return;
  }
  detail::check(rows);
  detail::check(columns);
  detail::reset_magnitudes(exec, columns);
  if (rows.x.dtype == DType::f32)
    detail::rows_and_column_magnitudes<Format, float>(exec, rows, columns);
  else
    detail::rows_and_column_magnitudes<Format, bf16_t>(exec, rows, columns);
  detail::finish_scales(exec, columns);
  detail::encode_all<Format>(exec, columns);
}

/// values (f32, dense) = decoded codes (dense).
template <NumericFormat Format>
void decode(const Exec& exec, const TensorView& codes, const TensorView& values) {
  require(codes.numel() == values.numel() && codes.contiguous() && values.contiguous(),
          "Codes of shape {} do not decode into shape {}.", to_string(codes.shape), to_string(values.shape));
  const auto* in = static_cast<const typename Format::storage*>(codes.data);
  float* out = values.as<float>();
  Kokkos::parallel_for(
      "kvant::decode_codes", Range(exec.space, 0, codes.numel()),
      KOKKOS_LAMBDA(const long i) { out[i] = Format::decode(in[i]); });
}

}  // namespace kvant
