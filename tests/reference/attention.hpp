// Attention in double precision, with the whole score matrix and no tricks: what kernels/attention.hpp is compared
// with.
#pragma once

#include "kernels/attention.hpp"

#include <cmath>
#include <cstddef>
#include <limits>
#include <vector>

namespace kvant::reference {

/// Layouts as in kernels/attention.hpp. segment empty: one segment.
struct AttentionInput {
  AttentionShape shape;
  std::vector<double> q, k, v;
  std::vector<int> segment;
};

struct AttentionOutput {
  std::vector<double> out, lse;
};

struct AttentionGradient {
  std::vector<double> dq, dk, dv;
};

struct AttentionIndex {
  AttentionShape s;
  std::size_t kv_head(int64_t h) const { return static_cast<std::size_t>(h / (s.heads / s.kv_heads)); }
  std::size_t q(int64_t b, int64_t h, int64_t i) const {
    return static_cast<std::size_t>(((b * s.heads + h) * s.seq + i) * s.qk_dim);
  }
  std::size_t k(int64_t b, int64_t h, int64_t j) const {
    return (static_cast<std::size_t>((b * s.kv_heads) * s.seq + j) + kv_head(h) * static_cast<std::size_t>(s.seq)) *
           static_cast<std::size_t>(s.qk_dim);
  }
  std::size_t v(int64_t b, int64_t h, int64_t j) const {
    return k(b, h, j) / static_cast<std::size_t>(s.qk_dim) * static_cast<std::size_t>(s.v_dim);
  }
  std::size_t out(int64_t b, int64_t h, int64_t i) const {
    return static_cast<std::size_t>(((b * s.seq + i) * s.heads + h) * s.v_dim);
  }
  std::size_t lse(int64_t b, int64_t h, int64_t i) const {
    return static_cast<std::size_t>((b * s.heads + h) * s.seq + i);
  }
};

inline bool attends(const AttentionInput& x, int64_t b, int64_t i, int64_t j) {
  const auto row = static_cast<std::size_t>(b * x.shape.seq);
  return j <= i && (x.segment.empty() ||
                    x.segment[row + static_cast<std::size_t>(i)] == x.segment[row + static_cast<std::size_t>(j)]);
}

/// The scores of one query with keys 0..i, -inf where masked; returns their log-sum-exp.
inline double attention_scores(const AttentionInput& x, int64_t b, int64_t h, int64_t i, std::vector<double>& score) {
  const AttentionIndex at{x.shape};
  double max = -std::numeric_limits<double>::infinity(), sum = 0;
  for (int64_t j = 0; j <= i; ++j) {
    double& s = score[static_cast<std::size_t>(j)] = -std::numeric_limits<double>::infinity();
    if (!attends(x, b, i, j)) continue;
    s = 0;
    for (std::size_t c = 0; c < static_cast<std::size_t>(x.shape.qk_dim); ++c)
      s += x.q[at.q(b, h, i) + c] * x.k[at.k(b, h, j) + c];
    max = std::max(max, s);
  }
  for (int64_t j = 0; j <= i; ++j) sum += std::exp(score[static_cast<std::size_t>(j)] - max);
  return max + std::log(sum);
}

inline AttentionOutput attention_forward(const AttentionInput& x) {
  const AttentionShape& s = x.shape;
  const AttentionIndex at{s};
  AttentionOutput y{std::vector<double>(static_cast<std::size_t>(s.batch * s.seq * s.heads * s.v_dim)),
                    std::vector<double>(static_cast<std::size_t>(s.batch * s.heads * s.seq))};
  std::vector<double> score(static_cast<std::size_t>(s.seq));
  for (int64_t b = 0; b < s.batch; ++b)
    for (int64_t h = 0; h < s.heads; ++h)
      for (int64_t i = 0; i < s.seq; ++i) {
        const double lse = y.lse[at.lse(b, h, i)] = attention_scores(x, b, h, i, score);
        for (int64_t j = 0; j <= i; ++j)
          for (std::size_t c = 0; c < static_cast<std::size_t>(s.v_dim); ++c)
            y.out[at.out(b, h, i) + c] += std::exp(score[static_cast<std::size_t>(j)] - lse) * x.v[at.v(b, h, j) + c];
      }
  return y;
}

inline AttentionGradient attention_backward(const AttentionInput& x, const AttentionOutput& y,
                                            const std::vector<double>& dout) {
  const AttentionShape& s = x.shape;
  const AttentionIndex at{s};
  const auto d = static_cast<std::size_t>(s.qk_dim), w = static_cast<std::size_t>(s.v_dim);
  AttentionGradient g{std::vector<double>(x.q.size()), std::vector<double>(x.k.size()),
                      std::vector<double>(x.v.size())};
  std::vector<double> score(static_cast<std::size_t>(s.seq));
  for (int64_t b = 0; b < s.batch; ++b)
    for (int64_t h = 0; h < s.heads; ++h)
      for (int64_t i = 0; i < s.seq; ++i) {
        const double lse = attention_scores(x, b, h, i, score);
        double dot = 0;
        for (std::size_t c = 0; c < w; ++c) dot += dout[at.out(b, h, i) + c] * y.out[at.out(b, h, i) + c];
        for (int64_t j = 0; j <= i; ++j) {
          const double p = std::exp(score[static_cast<std::size_t>(j)] - lse);
          double dp = 0;
          for (std::size_t c = 0; c < w; ++c) {
            dp += dout[at.out(b, h, i) + c] * x.v[at.v(b, h, j) + c];
            g.dv[at.v(b, h, j) + c] += p * dout[at.out(b, h, i) + c];
          }
          for (std::size_t c = 0; c < d; ++c) {
            g.dq[at.q(b, h, i) + c] += p * (dp - dot) * x.k[at.k(b, h, j) + c];
            g.dk[at.k(b, h, j) + c] += p * (dp - dot) * x.q[at.q(b, h, i) + c];
          }
        }
      }
  return g;
}

}  // namespace kvant::reference
