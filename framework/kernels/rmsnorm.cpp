#include "kernels/rmsnorm.hpp"

#include "kernels/detail/lanes.hpp"
#include "kernels/detail/rows.hpp"
#include "numerics/bf16.hpp"
#include "tensor/dispatch.hpp"

namespace kvant {
using namespace detail;

namespace {

template <class T>
KOKKOS_FORCEINLINE_FUNCTION float rounded(float x) {
  return to_float(from_float<T>(x));
}

/// The norm of one row; returns its rstd.
template <class T>
KOKKOS_INLINE_FUNCTION float rmsnorm_row(const T* x, const float* scale, float eps, long d, T* y) {
  const float squares = lane_sum(d, [=](long i) { return to_float(x[i]) * to_float(x[i]); });
  const float rstd = 1.0f / square_root(squares / static_cast<float>(d) + eps);
  KVANT_INDEPENDENT
  for (long i = 0; i < d; ++i) y[i] = from_float<T>(rounded<T>(to_float(x[i]) * rstd) * rounded<T>(scale[i]));
  return rstd;
}

template <class T>
KOKKOS_INLINE_FUNCTION float row_absmax(const T* y, long d) {
  return magnitude_of_key(lane_max(d, 0, [=](long i) { return magnitude_key(to_float(y[i])); }));
}

template <class T>
void rmsnorm_rows(const Exec& exec, Matrix<T> x, const float* scale, float eps, long rows, long d, Matrix<T> y,
                  float* rstd, float* absmax) {
  Kokkos::parallel_for(
      "kvant::rmsnorm_forward", Range(exec.space, 0, rows), KOKKOS_LAMBDA(const long t) {
        rstd[t] = rmsnorm_row(x.row(t), scale, eps, d, y.row(t));
        if (absmax != nullptr) absmax[t] = row_absmax(y.row(t), d);
      });
}

template <class T>
KOKKOS_INLINE_FUNCTION void add_row(const T* a, const T* b, T* sum, long d) {
  KVANT_INDEPENDENT
  for (long i = 0; i < d; ++i) sum[i] = from_float<T>(to_float(a[i]) + to_float(b[i]));
}

template <class T>
void add_rmsnorm_rows(const Exec& exec, Matrix<T> a, Matrix<T> b, Matrix<T> sum, const float* scale, float eps,
                      long rows, long d, Matrix<T> y, float* rstd, float* absmax) {
  Kokkos::parallel_for(
      "kvant::add_rmsnorm_forward", Range(exec.space, 0, rows), KOKKOS_LAMBDA(const long t) {
        add_row(a.row(t), b.row(t), sum.row(t), d);
        rstd[t] = rmsnorm_row(sum.row(t), scale, eps, d, y.row(t));
        if (absmax != nullptr) absmax[t] = row_absmax(y.row(t), d);
      });
}

/// dx of one row; adds dy * x_ to the sums of its chunk.
template <class T>
KOKKOS_INLINE_FUNCTION void rmsnorm_backward_row(const T* x, const float* scale, float rstd, const T* dy, T* dx,
                                                 bool accumulate, float* dscale, long d) {
  const float dot = lane_sum(d, [=](long i) { return to_float(dy[i]) * rounded<T>(scale[i]) * to_float(x[i]); });
  const float mean = dot * rstd / static_cast<float>(d);  // of g * x_
  if (accumulate) {
    KVANT_INDEPENDENT
    for (long i = 0; i < d; ++i) {
      const float x_hat = to_float(x[i]) * rstd, g = to_float(dy[i]);
      dscale[i] += g * x_hat;
      dx[i] = from_float<T>(to_float(dx[i]) + rstd * (g * rounded<T>(scale[i]) - x_hat * mean));
    }
  } else {
    KVANT_INDEPENDENT
    for (long i = 0; i < d; ++i) {
      const float x_hat = to_float(x[i]) * rstd, g = to_float(dy[i]);
      dscale[i] += g * x_hat;
      dx[i] = from_float<T>(rstd * (g * rounded<T>(scale[i]) - x_hat * mean));
    }
  }
}

// The sums over rows are made in chunks of this many rows, which are then added in order.
constexpr long rmsnorm_chunk = 32;

template <class T>
void rmsnorm_backward_chunks(const Exec& exec, Matrix<T> x, const float* scale, const float* rstd, Matrix<T> dy,
                             Matrix<T> dx, bool accumulate, float* partial, long rows, long d) {
  const long chunks = (rows + rmsnorm_chunk - 1) / rmsnorm_chunk;
  Kokkos::parallel_for(
      "kvant::rmsnorm_backward", Range(exec.space, 0, chunks), KOKKOS_LAMBDA(const long c) {
        float* sums = partial + c * d;
        for (long i = 0; i < d; ++i) sums[i] = 0.0f;
        const long end = (c + 1) * rmsnorm_chunk < rows ? (c + 1) * rmsnorm_chunk : rows;
        for (long t = c * rmsnorm_chunk; t < end; ++t)
          rmsnorm_backward_row(x.row(t), scale, rstd[t], dy.row(t), dx.row(t), accumulate, sums, d);
      });
}

KOKKOS_INLINE_FUNCTION void add_partial_columns(const float* partial, long chunks, long d, long begin, long end,
                                                float* out) {
  for (long i = begin; i < end; ++i) {
    float total = 0.0f;
    for (long c = 0; c < chunks; ++c) total += partial[c * d + i];
    out[i] += total;
  }
}

void rmsnorm_scale_gradient(const Exec& exec, const float* partial, long chunks, long d, float* dscale) {
  constexpr long block = exec_is_host ? 64 : 1;
  Kokkos::parallel_for(
      "kvant::rmsnorm_scale_gradient", Range(exec.space, 0, (d + block - 1) / block), KOKKOS_LAMBDA(const long b) {
        add_partial_columns(partial, chunks, d, b * block, (b + 1) * block < d ? (b + 1) * block : d, dscale);
      });
}

}  // namespace

void rmsnorm_forward(const Exec& exec, TensorView x, TensorView scale, float eps, TensorView y, TensorView rstd,
                     TensorView row_absmax) {
  constexpr auto kernel = "rmsnorm_forward";
  const auto ex = extent_of(x, kernel, "x");
  const auto ey = require_matrix(y, x.dtype, ex.rows, ex.cols, kernel, "y");
  require_vector(scale, DType::f32, ex.cols, kernel, "scale");
  require_vector(rstd, DType::f32, ex.rows, kernel, "rstd");
  float* absmax = optional_vector(row_absmax, ex.rows, kernel, "row_absmax");
  dispatch_activation(x.dtype, kernel, [&]<class T>() {
    rmsnorm_rows(exec, matrix<T>(x, ex), scale.as<float>(), eps, ex.rows, ex.cols, matrix<T>(y, ey), rstd.as<float>(),
                 absmax);
  });
}

void add_rmsnorm_forward(const Exec& exec, TensorView a, TensorView b, TensorView sum, TensorView scale, float eps,
                         TensorView y, TensorView rstd, TensorView row_absmax) {
  constexpr auto kernel = "add_rmsnorm_forward";
  const auto ea = extent_of(a, kernel, "a");
  const auto eb = require_matrix(b, a.dtype, ea.rows, ea.cols, kernel, "b");
  const auto es = require_matrix(sum, a.dtype, ea.rows, ea.cols, kernel, "sum");
  const auto ey = require_matrix(y, a.dtype, ea.rows, ea.cols, kernel, "y");
  require_vector(scale, DType::f32, ea.cols, kernel, "scale");
  require_vector(rstd, DType::f32, ea.rows, kernel, "rstd");
  float* absmax = optional_vector(row_absmax, ea.rows, kernel, "row_absmax");
  dispatch_activation(a.dtype, kernel, [&]<class T>() {
    add_rmsnorm_rows(exec, matrix<T>(a, ea), matrix<T>(b, eb), matrix<T>(sum, es), scale.as<float>(), eps, ea.rows,
                     ea.cols, matrix<T>(y, ey), rstd.as<float>(), absmax);
  });
}

void rmsnorm_backward(const Exec& exec, TensorView x, TensorView scale, TensorView rstd, TensorView dy, TensorView dx,
                      Write dx_mode, TensorView dscale, Arena& workspace) {
  constexpr auto kernel = "rmsnorm_backward";
  const auto ex = extent_of(x, kernel, "x");
  const auto edy = require_matrix(dy, x.dtype, ex.rows, ex.cols, kernel, "dy");
  const auto edx = require_matrix(dx, x.dtype, ex.rows, ex.cols, kernel, "dx");
  require_vector(scale, DType::f32, ex.cols, kernel, "scale");
  require_vector(rstd, DType::f32, ex.rows, kernel, "rstd");
  require_vector(dscale, DType::f32, ex.cols, kernel, "dscale");
  const ArenaScope scope(workspace);
  const long chunks = (ex.rows + rmsnorm_chunk - 1) / rmsnorm_chunk;
  auto* partial = workspace.allocate(DType::f32, {chunks, ex.cols}).as<float>();
  dispatch_activation(x.dtype, kernel, [&]<class T>() {
    rmsnorm_backward_chunks(exec, matrix<T>(x, ex), scale.as<float>(), rstd.as<float>(), matrix<T>(dy, edy),
                            matrix<T>(dx, edx), dx_mode == Write::accumulate, partial, ex.rows, ex.cols);
  });
  rmsnorm_scale_gradient(exec, partial, chunks, ex.cols, dscale.as<float>());
}

}  // namespace kvant
