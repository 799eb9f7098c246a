// The packing of multi-head latent attention in double: what kernels/mla_pack.hpp is compared with.
#pragma once

#include "kernels/mla_pack.hpp"
#include "reference/rope.hpp"

namespace kvant::reference {

struct MlaPacked {
  std::vector<double> q, k, v;
};

struct MlaIndex {
  MlaPack m;
  std::size_t raw(int64_t token, int64_t h, int64_t width) const {
    return static_cast<std::size_t>((token * m.heads + h) * width);
  }
  std::size_t packed(int64_t token, int64_t h, int64_t width) const {
    return static_cast<std::size_t>(((token / m.sequence * m.heads + h) * m.sequence + token % m.sequence) * width);
  }
};

inline MlaPacked mla_pack(const MlaPack& m, const std::vector<double>& q_raw, const std::vector<double>& kv_raw,
                          const std::vector<double>& k_rope_raw, const std::vector<int>& positions,
                          const std::vector<double>& frequency) {
  const MlaIndex at{m};
  const int64_t tokens = m.batch * m.sequence, qk = m.nope + m.rope, kv = m.nope + m.value;
  MlaPacked out{std::vector<double>(static_cast<std::size_t>(tokens * m.heads * qk)),
                std::vector<double>(static_cast<std::size_t>(tokens * m.heads * qk)),
                std::vector<double>(static_cast<std::size_t>(tokens * m.heads * m.value))};
  const auto cut = [](const std::vector<double>& x, std::size_t from, int64_t n) {
    return std::vector<double>(x.begin() + static_cast<std::ptrdiff_t>(from),
                               x.begin() + static_cast<std::ptrdiff_t>(from) + n);
  };
  for (int64_t t = 0; t < tokens; ++t) {
    const double position = positions[static_cast<std::size_t>(t)];
    const auto kr = rotate(cut(k_rope_raw, static_cast<std::size_t>(t * m.rope), m.rope), position, frequency,
                           m.rope_scale, m.interleave);
    for (int64_t h = 0; h < m.heads; ++h) {
      const std::size_t q = at.packed(t, h, qk), v = at.packed(t, h, m.value);
      const auto qr = rotate(cut(q_raw, at.raw(t, h, qk) + static_cast<std::size_t>(m.nope), m.rope), position,
                             frequency, m.rope_scale, m.interleave);
      for (int64_t i = 0; i < m.nope; ++i) {
        const auto j = static_cast<std::size_t>(i);
        out.q[q + j] = m.q_scale * q_raw[at.raw(t, h, qk) + j];
        out.k[q + j] = kv_raw[at.raw(t, h, kv) + j];
      }
      for (int64_t i = 0; i < m.rope; ++i) {
        const auto j = static_cast<std::size_t>(i), n = static_cast<std::size_t>(m.nope);
        out.q[q + n + j] = m.q_scale * qr[j];
        out.k[q + n + j] = kr[j];
      }
      for (int64_t i = 0; i < m.value; ++i)
        out.v[v + static_cast<std::size_t>(i)] = kv_raw[at.raw(t, h, kv) + static_cast<std::size_t>(m.nope + i)];
    }
  }
  return out;
}

struct MlaPackGradient {
  std::vector<double> dq_raw, dkv_raw, dk_rope_raw;
};

/// The transpose: every output is linear in every input, so the matrix is walked entry by entry.
inline MlaPackGradient mla_pack_backward(const MlaPack& m, const std::vector<double>& dq, const std::vector<double>& dk,
                                         const std::vector<double>& dv, const std::vector<int>& positions,
                                         const std::vector<double>& frequency) {
  const MlaIndex at{m};
  const int64_t tokens = m.batch * m.sequence, qk = m.nope + m.rope, kv = m.nope + m.value;
  MlaPackGradient g{std::vector<double>(static_cast<std::size_t>(tokens * m.heads * qk)),
                    std::vector<double>(static_cast<std::size_t>(tokens * m.heads * kv)),
                    std::vector<double>(static_cast<std::size_t>(tokens * m.rope))};
  const auto half = frequency.size();
  for (int64_t t = 0; t < tokens; ++t)
    for (int64_t h = 0; h < m.heads; ++h) {
      const std::size_t p = at.packed(t, h, qk), q = at.raw(t, h, qk), r = at.raw(t, h, kv),
                        n = static_cast<std::size_t>(m.nope);
      for (std::size_t j = 0; j < n; ++j) {
        g.dq_raw[q + j] = m.q_scale * dq[p + j];
        g.dkv_raw[r + j] = dk[p + j];
      }
      for (std::size_t j = 0; j < static_cast<std::size_t>(m.value); ++j)
        g.dkv_raw[r + n + j] = dv[at.packed(t, h, m.value) + j];
      for (std::size_t i = 0; i < half; ++i) {
        const double angle =
            static_cast<float>(positions[static_cast<std::size_t>(t)]) * static_cast<float>(frequency[i]);
        const double c = std::cos(angle) * m.rope_scale, s = std::sin(angle) * m.rope_scale;
        const std::size_t first = m.interleave ? 2 * i : i, second = m.interleave ? 2 * i + 1 : half + i;
        const std::size_t kr = static_cast<std::size_t>(t * m.rope);
        g.dq_raw[q + n + first] = m.q_scale * (c * dq[p + n + i] + s * dq[p + n + half + i]);
        g.dq_raw[q + n + second] = m.q_scale * (c * dq[p + n + half + i] - s * dq[p + n + i]);
        g.dk_rope_raw[kr + first] += c * dk[p + n + i] + s * dk[p + n + half + i];
        g.dk_rope_raw[kr + second] += c * dk[p + n + half + i] - s * dk[p + n + i];
      }
    }
  return g;
}

}  // namespace kvant::reference
