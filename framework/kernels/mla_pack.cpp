#include "kernels/mla_pack.hpp"

#include "kernels/detail/lanes.hpp"
#include "kernels/detail/rows.hpp"
#include "kernels/rope.hpp"
#include "numerics/bf16.hpp"
#include "tensor/dispatch.hpp"

namespace kvant {
using namespace detail;

namespace {

/// cos and sin of one token's angles, times the attention scale.
struct Rotation {
  float cos[rope_max_dim / 2];
  float sin[rope_max_dim / 2];

  KOKKOS_INLINE_FUNCTION Rotation(int32_t position, const float* frequency, float scale, long half) {
    for (long i = 0; i < half; ++i) {
      const SinCos sc = sin_cos(static_cast<float>(position) * frequency[i]);
      cos[i] = sc.cos * scale;
      sin[i] = sc.sin * scale;
    }
  }
};

/// out[0..half) = first parts, out[half..2 half) = second parts; pair i of the input is (in[i * step], in[i * step +
/// other]).
template <class In, class Out>
KOKKOS_INLINE_FUNCTION void rotate(const In* in, const Rotation& r, float factor, long half, long step, long other,
                                   Out* out) {
  KVANT_INDEPENDENT
  for (long i = 0; i < half; ++i) {
    const float a = to_float(in[i * step]), b = to_float(in[i * step + other]);
    out[i] = from_float<Out>((a * r.cos[i] - b * r.sin[i]) * factor);
    out[half + i] = from_float<Out>((b * r.cos[i] + a * r.sin[i]) * factor);
  }
}

/// The transpose of rotate.
template <class In, class Out>
KOKKOS_INLINE_FUNCTION void rotate_back(const In* in, const Rotation& r, float factor, long half, long step, long other,
                                        Out* out) {
  KVANT_INDEPENDENT
  for (long i = 0; i < half; ++i) {
    const float a = to_float(in[i]), b = to_float(in[half + i]);
    out[i * step] = from_float<Out>((a * r.cos[i] + b * r.sin[i]) * factor);
    out[i * step + other] = from_float<Out>((b * r.cos[i] - a * r.sin[i]) * factor);
  }
}

template <class T>
KOKKOS_INLINE_FUNCTION void copy_row(const T* in, long n, T* out) {
  KVANT_INDEPENDENT
  for (long i = 0; i < n; ++i) out[i] = in[i];
}

template <class T>
KOKKOS_INLINE_FUNCTION void scaled_row(const T* in, float factor, long n, T* out) {
  KVANT_INDEPENDENT
  for (long i = 0; i < n; ++i) out[i] = from_float<T>(to_float(in[i]) * factor);
}

/// Pointers of a call; `step` and `other` say where the two parts of a pair lie in the raw rows.
template <class T>
struct PackViews {
  long batch, sequence, heads, nope, rope, value, half, step, other;
  float q_scale, rope_scale;
  const int32_t* position;
  const float* frequency;
  T* q_raw;
  T* kv_raw;
  Matrix<T> k_rope_raw;
  T* q;
  T* k;
  T* v;

  KOKKOS_INLINE_FUNCTION T* raw_q(long token, long h) const { return q_raw + (token * heads + h) * (nope + rope); }
  KOKKOS_INLINE_FUNCTION T* raw_kv(long token, long h) const { return kv_raw + (token * heads + h) * (nope + value); }
  /// Row of token (b, s) and head h in [B,H,S].
  KOKKOS_INLINE_FUNCTION long packed(long token, long h) const {
    const long b = token / sequence, s = token - b * sequence;
    return (b * heads + h) * sequence + s;
  }
};

template <class T>
KOKKOS_INLINE_FUNCTION void pack_token(const PackViews<T>& p, long token) {
  const Rotation r(p.position[token], p.frequency, p.rope_scale, p.half);
  const long qk = p.nope + p.rope;
  const T* shared = nullptr;  // the rotated key head, once it has been written for head 0
  for (long h = 0; h < p.heads; ++h) {
    const long row = p.packed(token, h);
    const T* raw = p.raw_q(token, h);
    scaled_row(raw, p.q_scale, p.nope, p.q + row * qk);
    rotate(raw + p.nope, r, p.q_scale, p.half, p.step, p.other, p.q + row * qk + p.nope);
    const T* kv = p.raw_kv(token, h);
    copy_row(kv, p.nope, p.k + row * qk);
    T* k_rope = p.k + row * qk + p.nope;
    if (shared == nullptr)
      rotate(p.k_rope_raw.row(token), r, 1.0f, p.half, p.step, p.other, k_rope);
    else
      copy_row(shared, p.rope, k_rope);
    shared = k_rope;
    copy_row(kv + p.nope, p.value, p.v + row * p.value);
  }
}

template <class T>
KOKKOS_INLINE_FUNCTION void unpack_token(const PackViews<T>& p, long token) {
  const Rotation r(p.position[token], p.frequency, p.rope_scale, p.half);
  const long qk = p.nope + p.rope;
  float sum[rope_max_dim];
  for (long i = 0; i < p.rope; ++i) sum[i] = 0.0f;
  for (long h = 0; h < p.heads; ++h) {
    const long row = p.packed(token, h);
    T* raw = p.raw_q(token, h);
    scaled_row(p.q + row * qk, p.q_scale, p.nope, raw);
    rotate_back(p.q + row * qk + p.nope, r, p.q_scale, p.half, p.step, p.other, raw + p.nope);
    T* kv = p.raw_kv(token, h);
    copy_row(p.k + row * qk, p.nope, kv);
    const T* k_rope = p.k + row * qk + p.nope;
    for (long i = 0; i < p.rope; ++i) sum[i] += to_float(k_rope[i]);
    copy_row(p.v + row * p.value, p.value, kv + p.nope);
  }
  rotate_back(sum, r, 1.0f, p.half, p.step, p.other, p.k_rope_raw.row(token));
}

template <class T>
void pack_tokens(const Exec& exec, const PackViews<T>& p) {
  Kokkos::parallel_for(
      "kvant::mla_pack_forward", Range(exec.space, 0, p.batch * p.sequence),
      KOKKOS_LAMBDA(const long token) { pack_token(p, token); });
}

template <class T>
void unpack_tokens(const Exec& exec, const PackViews<T>& p) {
  Kokkos::parallel_for(
      "kvant::mla_pack_backward", Range(exec.space, 0, p.batch * p.sequence),
      KOKKOS_LAMBDA(const long token) { unpack_token(p, token); });
}

/// The same checks for both directions; names are those of the forward call.
template <class T>
PackViews<T> pack_views(const MlaPack& m, const TensorView& q_raw, const TensorView& kv_raw,
                        const TensorView& k_rope_raw, const TensorView& positions, const TensorView& frequency,
                        const TensorView& q, const TensorView& k, const TensorView& v, std::string_view kernel) {
  require(m.rope >= 2 && m.rope % 2 == 0 && m.rope <= rope_max_dim && m.heads >= 1 && m.nope >= 0 && m.value >= 0,
          "{}: {} heads with {} rotated, {} plain and {} value columns; it takes an even number of rotated columns up "
          "to {}.",
          kernel, m.heads, m.rope, m.nope, m.value, rope_max_dim);
  const int64_t tokens = m.batch * m.sequence, all = tokens * m.heads;
  const DType t = q_raw.dtype;
  require_vector(q_raw, t, all * (m.nope + m.rope), kernel, "q_raw");
  require_vector(kv_raw, t, all * (m.nope + m.value), kernel, "kv_raw");
  require_vector(q, t, all * (m.nope + m.rope), kernel, "q");
  require_vector(k, t, all * (m.nope + m.rope), kernel, "k");
  require_vector(v, t, all * m.value, kernel, "v");
  require_vector(positions, DType::i32, tokens, kernel, "positions");
  require_vector(frequency, DType::f32, m.rope / 2, kernel, "frequency");
  const Extent e = require_matrix(k_rope_raw, t, tokens, m.rope, kernel, "k_rope_raw");
  const long half = m.rope / 2;
  return {m.batch,
          m.sequence,
          m.heads,
          m.nope,
          m.rope,
          m.value,
          half,
          m.interleave ? 2 : 1,
          m.interleave ? 1 : half,
          m.q_scale,
          m.rope_scale,
          positions.as<int32_t>(),
          frequency.as<float>(),
          q_raw.as<T>(),
          kv_raw.as<T>(),
          matrix<T>(k_rope_raw, e),
          q.as<T>(),
          k.as<T>(),
          v.as<T>()};
}

}  // namespace

void mla_pack_forward(const Exec& exec, const MlaPack& pack, TensorView q_raw, TensorView kv_raw, TensorView k_rope_raw,
                      TensorView positions, TensorView frequency, TensorView q, TensorView k, TensorView v) {
  dispatch_activation(q_raw.dtype, "mla_pack_forward", [&]<class T>() {
    pack_tokens(exec,
                pack_views<T>(pack, q_raw, kv_raw, k_rope_raw, positions, frequency, q, k, v, "mla_pack_forward"));
  });
}

void mla_pack_backward(const Exec& exec, const MlaPack& pack, TensorView dq, TensorView dk, TensorView dv,
                       TensorView positions, TensorView frequency, TensorView dq_raw, TensorView dkv_raw,
                       TensorView dk_rope_raw) {
  dispatch_activation(dq.dtype, "mla_pack_backward", [&]<class T>() {
    unpack_tokens(
        exec, pack_views<T>(pack, dq_raw, dkv_raw, dk_rope_raw, positions, frequency, dq, dk, dv, "mla_pack_backward"));
  });
}

}  // namespace kvant
