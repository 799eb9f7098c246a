#include "kernels/quantize.hpp"

#include "kernels/quantize_kernel.hpp"

namespace kvant {
namespace quantize_detail {
namespace {

bool accepted(DType t) { return t == DType::f32 || t == DType::bf16; }

long group_count(const QuantizeJob& job) {
  if (job.uniform_group > 0) return job.x.rows() / job.uniform_group;
  return job.offsets.data == nullptr ? 1 : job.offsets.numel() - 1;
}

/// Number of elements that a vector along an axis has; per group, a column vector may have one for each group.
void check_vector(const char* what, const TensorView& v, Along along, const QuantizeJob& job) {
  const int64_t rows = job.x.rows(), cols = job.x.cols(), groups = group_count(job);
  const int64_t wanted = along == Along::tensor ? 1 : along == Along::row ? rows : cols;
  const bool fits = v.numel() == wanted || (along == Along::column && v.numel() == groups * cols);
  require(fits && v.contiguous() && size_of(v.dtype) == 4,
          "Quantizing a matrix of shape {} in {} groups: the {} has shape {}.", to_string(job.x.shape), groups, what,
          to_string(v.shape));
}

template <class T>
Source<T> make_source(const QuantizeJob& job) {
  Source<T> s;
  s.x = static_cast<const T*>(job.x.data);
  s.rows = job.x.rows();
  s.cols = job.x.cols();
  s.stride = job.x.shape.rank >= 2 ? job.x.stride[static_cast<std::size_t>(job.x.shape.rank - 2)] : s.cols;
  s.multiplier = job.multiplier.data == nullptr ? nullptr : job.multiplier.as<float>();
  s.along = job.multiplier.data == nullptr ? Along::tensor : job.multiplier_along;
  s.groups.count = group_count(job);
  s.groups.uniform = job.uniform_group;
  s.groups.offsets = job.offsets.data == nullptr ? nullptr : job.offsets.as<int32_t>();
  const bool has_groups = job.uniform_group > 0 || job.offsets.data != nullptr;
  s.grouped_multiplier = has_groups && s.along == Along::column && job.multiplier.numel() == s.groups.count * s.cols;
  return s;
}

/// Columns are measured in pieces of this many rows and columns.
constexpr long rows_of_piece = 64, cols_of_piece = columns_of_tile;

template <class T>
KOKKOS_INLINE_FUNCTION void measure_piece(const Source<T>& in, bool grouped, long begin, long end, long c,
                                          int32_t* magnitudes) {
  const long n = in.cols - c < cols_of_piece ? in.cols - c : cols_of_piece;
  int32_t largest[cols_of_piece];
  for (long i = 0; i < n; ++i) largest[i] = 0;
  long current = grouped ? in.groups.of(begin) : 0;
  for (long r = begin; r < end; ++r) {
    const long group = grouped ? in.groups.of(r) : 0;
    if (group != current) {
      raise_shared(largest, n, magnitudes + current * in.cols + c);
      for (long i = 0; i < n; ++i) largest[i] = 0;
      current = group;
    }
    if (grouped && group >= in.groups.count) return;
    raise_columns(in.row(r) + c, n, in.row_factor(r), largest);
  }
  if (!grouped || current < in.groups.count) raise_shared(largest, n, magnitudes + current * in.cols + c);
}

template <class T>
void measure_columns(const Exec& exec, const QuantizeJob& job) {
  const Source<T> in = make_source<T>(job);
  const bool grouped = grouped_scale(job);
  auto* magnitudes = static_cast<int32_t*>(job.magnitudes.data);
  const long across = (in.cols + cols_of_piece - 1) / cols_of_piece,
             down = (in.rows + rows_of_piece - 1) / rows_of_piece;
  Kokkos::parallel_for(
      "kvant::quantize_measure_columns", Range(exec.space, 0, across * down), KOKKOS_LAMBDA(const long item) {
        const long begin = item / across * rows_of_piece;
        measure_piece(in, grouped, begin, begin + rows_of_piece < in.rows ? begin + rows_of_piece : in.rows,
                      item % across * cols_of_piece, magnitudes);
      });
}

template <class T>
void measure_tensor(const Exec& exec, const QuantizeJob& job) {
  const Source<T> in = make_source<T>(job);
  auto* magnitude = static_cast<int32_t*>(job.magnitudes.data);
  const long chunk = rows_of_chunk(in.cols, sizeof(T));
  Kokkos::parallel_for(
      "kvant::quantize_measure_tensor", Range(exec.space, 0, (in.rows + chunk - 1) / chunk),
      KOKKOS_LAMBDA(const long item) {
        const long end = (item + 1) * chunk < in.rows ? (item + 1) * chunk : in.rows;
        int32_t largest = 0;
        for (long r = item * chunk; r < end; ++r) {
          const long group = in.grouped_multiplier ? in.groups.of(r) : 0;
          if (in.grouped_multiplier && group >= in.groups.count) continue;
          const int32_t m = row_magnitude(in.row(r), in.cols, in.row_factor(r), in.column_factors(group));
          largest = m > largest ? m : largest;
        }
        raise_shared(&largest, 1, magnitude);
      });
}

}  // namespace

bool grouped_scale(const QuantizeJob& job) {
  const bool has_groups = job.uniform_group > 0 || job.offsets.data != nullptr;
  return has_groups && job.scale_along == Along::column && job.scale.numel() == group_count(job) * job.x.cols();
}

namespace {

template <class T, class Factor, class Divisor>
void ratios_of(const ScaleLaw& law, const T* x, long n, const Factor& factor, const Divisor& divisor, float* ratio) {
  const float limit = law.limit;
  if (law.true_quotient)
    for (long i = 0; i < n; ++i) ratio[i] = to_float(x[i]) * factor(i) / divisor(i);
  else
    for (long i = 0; i < n; ++i) ratio[i] = to_float(x[i]) * factor(i) * divisor(i);
  for (long i = 0; i < n; ++i) {
    const float below = ratio[i] > limit ? limit : ratio[i];
    ratio[i] = below < -limit ? -limit : below;
  }
}

template <class T>
void ratios(const ScaleLaw& law, const T* x, long n, float factor, const float* factors, float divisor, const float* divisors, float* ratio) {
  if (divisors != nullptr)
    ratios_of(law, x, n, OneFactor{factor}, ManyFactors{divisors}, ratio);
  else if (factors != nullptr)
    ratios_of(law, x, n, ManyFactors{factors}, OneFactor{divisor}, ratio);
  else
    ratios_of(law, x, n, OneFactor{factor}, OneFactor{divisor}, ratio);
}

}  // namespace

void clamped_ratios(const ScaleLaw& law, const float* x, long n, float factor, const float* factors, float divisor,
                    const float* divisors, float* ratio) {
  ratios(law, x, n, factor, factors, divisor, divisors, ratio);
}
void clamped_ratios(const ScaleLaw& law, const bf16_t* x, long n, float factor, const float* factors, float divisor,
                    const float* divisors, float* ratio) {
  ratios(law, x, n, factor, factors, divisor, divisors, ratio);
}

void check_noise(const NoiseJob& job, const Shape& shape) {
  const TensorView &ids = job.row_ids, &given = job.given;
  const bool matrix = shape.rank == 2;
  require(ids.data == nullptr || (matrix && ids.dtype == DType::i32 && ids.numel() == shape[0]),
          "Row numbers of shape {} do not fit a tensor of shape {}.", to_string(ids.shape), to_string(shape));
  require(!job.by_row || matrix, "Noise for each row needs a matrix, not a tensor of shape {}.", to_string(shape));
  const int64_t cols = shape.rank == 0 ? 1 : shape[shape.rank - 1], rows = cols == 0 ? 0 : shape.numel() / cols;
  const auto fits = [&](int axis, int64_t extent) { return given.shape[axis] == 1 || given.shape[axis] == extent; };
  require(given.data == nullptr ||
              (given.shape.rank == 2 && given.dtype == DType::f32 && given.contiguous() && fits(0, rows) && fits(1, cols)),
          "Noise of {} of shape {} does not fit a tensor of shape {}.", name_of(given.dtype), to_string(given.shape),
          to_string(shape));
}

void check(const QuantizeJob& job) {
  require(accepted(job.x.dtype), "A tensor of type {} is not quantized; float32 and bfloat16 are.",
          name_of(job.x.dtype));
  require(job.x.shape.rank >= 1 && (job.x.shape.rank == 2 || job.x.contiguous()),
          "A strided tensor of shape {} cannot be quantized.", to_string(job.x.shape));
  require(job.codes.rows() == job.x.rows() && job.codes.cols() == job.x.cols() && job.codes.contiguous(),
          "Codes of shape {} do not fit a matrix of shape {}.", to_string(job.codes.shape), to_string(job.x.shape));
  require(job.uniform_group == 0 || (job.offsets.data == nullptr && job.x.rows() % job.uniform_group == 0),
          "{} rows are not groups of {} rows each.", job.x.rows(), job.uniform_group);
  require(
      !(job.multiplier.data != nullptr && job.multiplier_along == Along::column && job.scale_along == Along::column),
      "A matrix with a multiplier for each column has no scale for each column.");
  require(job.law.rule == ScaleRule::exact && !(job.law.input_arithmetic && job.x.dtype == DType::bf16),
          "Scales by a block rule and arithmetic in bfloat16 are those of tiles (quantize_tiles.hpp).");
  check_noise(job.noise, {job.x.rows(), job.x.cols()});
  check_vector("scale", job.scale, job.scale_along, job);
  if (job.multiplier.data != nullptr) check_vector("multiplier", job.multiplier, job.multiplier_along, job);
  if (job.clip.data != nullptr) check_vector("clip", job.clip, job.scale_along, job);
  const bool measured_apart = job.fixed_scale == 0 && job.scale_along != Along::row;
  require(!job.ranges_given || measured_apart, "Ranges that are given are those of columns or of the tensor.");
  require(job.fixed_scale == 0 || job.scale_along == Along::tensor, "A fixed scale is one number for the tensor.");
  require(!measured_apart || (job.magnitudes.data != nullptr && job.magnitudes.numel() >= job.scale.numel() &&
                              job.magnitudes.dtype == DType::i32),
          "Measuring scales of shape {} needs as many int32 of workspace.", to_string(job.scale.shape));
}

Source<float> source_f32(const QuantizeJob& job) { return make_source<float>(job); }
Source<bf16_t> source_bf16(const QuantizeJob& job) { return make_source<bf16_t>(job); }

void reset_magnitudes(const Exec& exec, const QuantizeJob& job) {
  auto* magnitudes = static_cast<int32_t*>(job.magnitudes.data);
  Kokkos::parallel_for(
      "kvant::quantize_reset", Range(exec.space, 0, job.scale.numel()),
      KOKKOS_LAMBDA(const long i) { magnitudes[i] = 0; });
}

void measure(const Exec& exec, const QuantizeJob& job) {
  const bool wide = job.x.dtype == DType::f32;
  if (job.scale_along == Along::column)
    return wide ? measure_columns<float>(exec, job) : measure_columns<bf16_t>(exec, job);
  return wide ? measure_tensor<float>(exec, job) : measure_tensor<bf16_t>(exec, job);
}

void finish_scales(const Exec& exec, const QuantizeJob& job) {
  const ScaleLaw law = job.law;
  auto* scale = job.scale.as<float>();
  auto* clip = static_cast<float*>(job.clip.data);
  auto* magnitudes = static_cast<int32_t*>(job.magnitudes.data);
  Kokkos::parallel_for(
      "kvant::quantize_finish_scales", Range(exec.space, 0, job.scale.numel()), KOKKOS_LAMBDA(const long i) {
        const ScalePair pair = scale_of(law, magnitudes[i]);
        scale[i] = pair.scale;
        if (clip != nullptr) clip[i] = calibrated(law, magnitudes[i]);
        magnitudes[i] = static_cast<int32_t>(bits_of(pair.divisor));
      });
}

void store_fixed_scale(const Exec& exec, const QuantizeJob& job) {
  auto* scale = job.scale.as<float>();
  const float value = job.fixed_scale;
  Kokkos::parallel_for(
      "kvant::quantize_fixed_scale", Range(exec.space, 0, 1), KOKKOS_LAMBDA(const long) { scale[0] = value; });
}

namespace {

template <class Reference, class Result>
void store_masked(const Exec& exec, const ClipMask& mask, const TensorView& src, const TensorView& dst,
                  bool accumulate) {
  const auto* reference = mask.reference.as<Reference>();
  const auto* values = src.as<float>();
  auto* results = dst.as<Result>();
  const float* bound = mask.bound.data == nullptr ? nullptr : mask.bound.as<float>();
  const long cols = dst.cols();
  // A weight's bound may have one number for each column of each expert.
  const long rows_per_group = bound != nullptr && mask.bound_along == Along::column
                                  ? dst.rows() * cols / std::max<int64_t>(1, mask.bound.numel())
                                  : 1;
  const Along along = mask.bound_along;
  const float low = mask.low, high = mask.high;
  const long reference_stride = mask.reference.stride[0], result_stride = dst.stride[0];
  Kokkos::parallel_for(
      "kvant::store_where_unclipped", Range(exec.space, 0, dst.numel()), KOKKOS_LAMBDA(const long i) {
        const long r = i / cols, c = i % cols;
        const float x = to_float(reference[r * reference_stride + c]);
        float upper = high, lower = low;
        if (bound != nullptr) {
          upper = bound[along == Along::row ? r : along == Along::column ? r / rows_per_group * cols + c : 0];
          lower = -upper;
        }
        const float v = lower <= x && x <= upper ? values[i] : 0.0f;
        Result& result = results[r * result_stride + c];
        result = from_float<Result>(accumulate ? to_float(result) + v : v);
      });
}

}  // namespace
}  // namespace quantize_detail

void store_where_unclipped(const Exec& exec, const ClipMask& mask, const TensorView& src, const TensorView& dst,
                           bool accumulate) {
  namespace detail = quantize_detail;
  require(
      mask.reference.shape.rank == 2 && mask.reference.shape == dst.shape && src.shape == dst.shape && src.contiguous(),
      "A gradient of shape {} is masked by a tensor of shape {} into one of shape {}.", to_string(src.shape),
      to_string(mask.reference.shape), to_string(dst.shape));
  const bool wide_in = mask.reference.dtype == DType::f32, wide_out = dst.dtype == DType::f32;
  if (wide_in && wide_out)
    detail::store_masked<float, float>(exec, mask, src, dst, accumulate);
  else if (wide_in)
    detail::store_masked<float, bf16_t>(exec, mask, src, dst, accumulate);
  else if (wide_out)
    detail::store_masked<bf16_t, float>(exec, mask, src, dst, accumulate);
  else
    detail::store_masked<bf16_t, bf16_t>(exec, mask, src, dst, accumulate);
}

namespace quantize_detail {
namespace {

KOKKOS_INLINE_FUNCTION void store_as(float& to, float v) { to = v; }
KOKKOS_INLINE_FUNCTION void store_as(bf16_t& to, float v) { to = to_bf16(v); }

template <class T, class To>
void multiply(const Exec& exec, const QuantizeJob& job, To* product) {
  const Source<T> in = make_source<T>(job);
  Kokkos::parallel_for(
      "kvant::store_multiplied", Range(exec.space, 0, in.rows), KOKKOS_LAMBDA(const long r) {
        const long group = in.grouped_multiplier ? in.groups.of(r) : 0;
        const bool orphan = in.grouped_multiplier && group >= in.groups.count;
        const float* factors = orphan ? nullptr : in.column_factors(group);
        const float factor = orphan ? 0.0f : in.row_factor(r);
        const T* x = in.row(r);
        To* to = product + r * in.cols;
        if (factors != nullptr)
          for (long c = 0; c < in.cols; ++c) store_as(to[c], to_float(x[c]) * factors[c]);
        else
          for (long c = 0; c < in.cols; ++c) store_as(to[c], orphan ? 0.0f : to_float(x[c]) * factor);
      });
}

template <class T>
void measure_rows(const Exec& exec, const QuantizeJob& job, int32_t* magnitudes) {
  const Source<T> in = make_source<T>(job);
  Kokkos::parallel_for(
      "kvant::row_magnitudes", Range(exec.space, 0, in.rows), KOKKOS_LAMBDA(const long r) {
        const long group = in.grouped_multiplier ? in.groups.of(r) : 0;
        const bool orphan = in.grouped_multiplier && group >= in.groups.count;
        magnitudes[r] = orphan ? 0 : row_magnitude(in.row(r), in.cols, in.row_factor(r), in.column_factors(group));
      });
}

}  // namespace
}  // namespace quantize_detail

void row_magnitudes(const Exec& exec, const QuantizeJob& job, const TensorView& magnitudes) {
  require(magnitudes.dtype == DType::i32 && magnitudes.numel() == job.x.rows(), "{} magnitudes do not fit {} rows.", magnitudes.numel(), job.x.rows());
  job.x.dtype == DType::f32 ? quantize_detail::measure_rows<float>(exec, job, magnitudes.as<int32_t>())
                            : quantize_detail::measure_rows<bf16_t>(exec, job, magnitudes.as<int32_t>());
}

void largest_magnitude(const Exec& exec, const QuantizeJob& job, const TensorView& magnitude) {
  QuantizeJob whole = job;
  whole.scale_along = Along::tensor;
  whole.scale = whole.magnitudes = magnitude;
  quantize_detail::reset_magnitudes(exec, whole);
  quantize_detail::measure(exec, whole);
}

void store_multiplied(const Exec& exec, const QuantizeJob& job, const TensorView& product) {
  const bool narrow = product.dtype == DType::bf16 && job.x.dtype == DType::bf16;
  require((product.dtype == DType::f32 || narrow) && product.contiguous() && product.rows() == job.x.rows() && product.cols() == job.x.cols(),
          "A product of shape {} in {} does not fit a tensor of shape {}.", to_string(product.shape), name_of(product.dtype), to_string(job.x.shape));
  if (narrow)
    quantize_detail::multiply<bf16_t>(exec, job, product.as<bf16_t>());
  else if (job.x.dtype == DType::f32)
    quantize_detail::multiply<float>(exec, job, product.as<float>());
  else
    quantize_detail::multiply<bf16_t>(exec, job, product.as<float>());
}

}  // namespace kvant
