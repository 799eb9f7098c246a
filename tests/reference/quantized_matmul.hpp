// A quantized product, dense or grouped, forward and both backward arms, in plain loops: codes by the law that
// docs/numerics.md states, sums in double precision. The twin of framework/quant/quantized_matmul.cpp.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <functional>
#include <vector>

namespace kvant::reference {

/// How one operand is quantized.
struct OperandLaw {
  std::function<double(float)> round;  ///< decode(encode(v/s))
  float bound = 1;
  float factor = 1;
  float fixed = 0;        ///< > 0: constant range [-fixed, fixed], one scale
  float limit = 3.4e38f;  ///< v/s is clamped to this before rounding
  bool power_of_two = false;  ///< the scale is rounded up to one
};

struct MatmulProblem {
  int64_t rows = 0, k = 0, n = 0, groups = 1;
  std::vector<int64_t> offsets;  ///< [groups + 1]; empty: one dense product
  std::vector<float> x, w, g;    ///< [rows,k], [groups,k,n], [rows,n]
  OperandLaw act, weight, grad_input, grad_weight;
  bool shared_columns = false;  ///< experts share the scales of columns, and rows of no group count (the reference)
  bool masked = false;          ///< straight-through masks of constant ranges
};

struct MatmulResult {
  std::vector<double> y, dx, dw;
  std::vector<double> y_size, dx_size, dw_size;  ///< Σ|a||b| of each result: what errors are measured against
};

namespace detail {

inline std::size_t at(int64_t i) { return static_cast<std::size_t>(i); }

inline float scale_of(const OperandLaw& law, float magnitude) {
  if (law.fixed > 0) return law.fixed / law.bound;
  if (magnitude == 0) return 1.0f;
  const float scale = std::max(magnitude * law.factor / law.bound, 0x1p-126f);
  return law.power_of_two ? std::exp2(std::ceil(std::log2(scale))) : scale;
}

inline double code_of(const OperandLaw& law, float v, float scale) {
  const float ratio = std::clamp(v * (1.0f / scale), -law.limit, law.limit);
  return law.round(ratio);
}

}  // namespace detail

/// Decoded codes of a matrix [rows,cols] and the scale of each element. `cell` says which elements share one.
struct QuantizedMatrix {
  std::vector<double> code;
  std::vector<float> scale;   ///< by cell
  std::vector<int64_t> cell;  ///< of each element
  float scale_at(int64_t i) const { return scale[detail::at(cell[detail::at(i)])]; }
};

/// Elements of cell -1 belong to nothing: code 0.
inline QuantizedMatrix quantize_by(const OperandLaw& law, const std::vector<float>& v, std::vector<int64_t> cell,
                                   int64_t cells) {
  using detail::at;
  QuantizedMatrix q;
  if (law.fixed > 0) {
    cells = 1;
    for (int64_t& c : cell) c = std::min<int64_t>(c, 0);
  }
  std::vector<float> magnitude(at(cells), 0.0f);
  for (std::size_t i = 0; i < v.size(); ++i)
    if (cell[i] >= 0) magnitude[at(cell[i])] = std::max(magnitude[at(cell[i])], std::fabs(v[i]));
  for (const float m : magnitude) q.scale.push_back(detail::scale_of(law, m));
  for (std::size_t i = 0; i < v.size(); ++i)
    q.code.push_back(cell[i] < 0 ? 0.0 : detail::code_of(law, v[i], q.scale[at(cell[i])]));
  q.cell = std::move(cell);
  return q;
}

inline MatmulResult quantized_matmul(const MatmulProblem& p) {
  using detail::at;
  const int64_t R = p.rows, K = p.k, N = p.n;
  std::vector<int64_t> group(at(R), p.offsets.empty() ? 0 : -1);
  for (std::size_t j = 0; j + 1 < p.offsets.size(); ++j)
    for (int64_t r = p.offsets[j]; r < p.offsets[j + 1]; ++r) group[at(r)] = static_cast<int64_t>(j);
  const bool per_group = !p.offsets.empty() && !p.shared_columns;

  std::vector<int64_t> row_of_x(at(R * K)), column_of_w(at(p.groups * K * N)), row_of_g(at(R * N)),
      column_of_g(at(R * N));
  for (int64_t i = 0; i < R * K; ++i) row_of_x[at(i)] = i / K;
  for (int64_t i = 0; i < p.groups * K * N; ++i) column_of_w[at(i)] = (per_group ? i / (K * N) * N : 0) + i % N;
  const QuantizedMatrix x = quantize_by(p.act, p.x, row_of_x, R),
                        w = quantize_by(p.weight, p.w, column_of_w, p.groups * N);

  std::vector<float> by_weight(at(R * N)), by_act(at(R * N));
  for (int64_t r = 0; r < R; ++r) {
    for (int64_t j = 0; j < N; ++j) {
      const int64_t i = r * N + j, b = std::max<int64_t>(group[at(r)], 0);
      by_weight[at(i)] = p.g[at(i)] * w.scale_at(b * K * N + j);
      by_act[at(i)] = p.g[at(i)] * x.scale_at(r * K);
      row_of_g[at(i)] = r;
      column_of_g[at(i)] = per_group ? (group[at(r)] < 0 ? -1 : group[at(r)] * N + j) : j;
    }
  }
  const QuantizedMatrix gi = quantize_by(p.grad_input, by_weight, row_of_g, R),
                        gw = quantize_by(p.grad_weight, by_act, column_of_g, p.groups * N);

  MatmulResult out;
  out.y.assign(at(R * N), 0), out.dx.assign(at(R * K), 0), out.dw.assign(at(p.groups * K * N), 0);
  out.y_size = out.y, out.dx_size = out.dx, out.dw_size = out.dw;
  for (int64_t r = 0; r < R; ++r) {
    const int64_t b = group[at(r)];
    if (b < 0) continue;
    for (int64_t i = 0; i < K; ++i) {
      for (int64_t j = 0; j < N; ++j) {
        const double xc = x.code[at(r * K + i)], wc = w.code[at((b * K + i) * N + j)];
        const double sx = x.scale_at(r * K), sw = w.scale_at((b * K + i) * N + j);
        const double y = xc * wc * sx * sw;
        out.y[at(r * N + j)] += y;
        out.y_size[at(r * N + j)] += std::fabs(y);
        const bool x_kept = !p.masked || p.act.fixed == 0 || std::fabs(p.x[at(r * K + i)]) <= p.act.fixed;
        const bool w_kept =
            !p.masked || p.weight.fixed == 0 || std::fabs(p.w[at((b * K + i) * N + j)]) <= p.weight.fixed;
        const double dx = x_kept ? gi.code[at(r * N + j)] * wc * gi.scale_at(r * N + j) : 0;
        out.dx[at(r * K + i)] += dx;
        out.dx_size[at(r * K + i)] += std::fabs(dx);
        const double dw = w_kept ? xc * gw.code[at(r * N + j)] * gw.scale_at(r * N + j) : 0;
        out.dw[at((b * K + i) * N + j)] += dw;
        out.dw_size[at((b * K + i) * N + j)] += std::fabs(dw);
      }
    }
  }
  return out;
}

}  // namespace kvant::reference
